"""cuesta-opt: reads a module of any level, runs passes on it, and prints it; mlir-opt for cuesta."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cuesta._mlir import ir
from cuesta.errors import CuestaError, OptionError
from cuesta.passes.infra.pipeline import Pipeline, Step
from cuesta.passes.infra.registry import Pass, all_passes
from cuesta.passes.pipelines import Stage, stages_for
from cuesta.targets import parse_target
from cuesta.tools.command_line import Parser, Source, write_to_stdout
from cuesta.tools.entry_points import ShowVersions
from cuesta.tools.opt_driver import Driver, Settings


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit status: 0, or 1 after any failure."""
    try:
        return _run(_parse_arguments(argv))
    except CuestaError as error:
        print(f"cuesta-opt: error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe. Redirect stdout, so that its flush at exit does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="cuesta-opt", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action=ShowVersions)
    parser.add_argument("input", nargs="?", default="-", help="an .mlir or bytecode file; - or nothing: stdin")
    parser.add_argument("-o", dest="output", default="-", help="where the result goes; - or nothing: stdout")
    parser.add_argument("--kernels", metavar="FOLDER", help="compile the kernels of a result at stage tt, into FOLDER")
    passes = parser.add_argument_group("passes")
    passes.add_argument("--pass-pipeline", metavar="TEXT", help="builtin.module(…): cuesta's passes and upstream's")
    passes.add_argument("--from", dest="first", metavar="STAGE", help="the stage that the input is at already")
    passes.add_argument("--to", dest="last", metavar="STAGE", help="stop after this stage")
    passes.add_argument("--target", help="whose stages to run (default: cpu)")
    passes.add_argument("--list-passes", action="store_true", help="print cuesta's passes with their options")
    passes.add_argument("--list-stages", action="store_true", help="print the stages with their pipelines")
    passes.add_argument("--verify-each", action="store_true", default=True, help="verify after each pass (the default)")
    passes.add_argument("--no-verify", dest="verify_each", action="store_false", help="verify the input only")
    text = parser.add_argument_group("input and output")
    text.add_argument(
        "--split-input-file", action="store_true", help="process parts between '// -----' lines separately"
    )
    text.add_argument("--verify-diagnostics", action="store_true", help="check the expected-error comments")
    text.add_argument("--allow-unregistered-dialect", action="store_true", help="accept ops that no dialect defines")
    text.add_argument("--mlir-print-debuginfo", action="store_true", help="print locations")
    text.add_argument("--print-ir-before-all", action="store_true", help="print the module before each pass (stderr)")
    text.add_argument("--print-ir-after-all", action="store_true", help="print the module after each pass (stderr)")
    text.add_argument("--timing", action="store_true", help="print the time of each pass (stderr)")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    from cuesta.dialects import make_context

    if arguments.list_passes:
        write_to_stdout("".join(f"{_describe(name, cls)}\n" for name, cls in all_passes().items()))
        return 0
    if arguments.list_stages:
        write_to_stdout(_listed(_stages(arguments)))
        return 0
    steps = _steps(arguments)
    source = Source.read(arguments.input)
    settings = Settings(
        split_input=arguments.split_input_file,
        verify_diagnostics=arguments.verify_diagnostics,
        allow_unregistered=arguments.allow_unregistered_dialect,
        verify_each=arguments.verify_each,
        print_before=arguments.print_ir_before_all,
        print_after=arguments.print_ir_after_all,
        debug_info=arguments.mlir_print_debuginfo,
        timing=arguments.timing,
    )
    context = make_context()
    output, good = Driver(context, source, steps, settings).run()
    if not good and (arguments.first or arguments.last) and not arguments.verify_diagnostics:
        _warn_of_level(context, source, arguments.first or "import")
    if good and arguments.kernels is not None:
        _write_kernels(ir.Module.parse(output, context), arguments)
    if good or arguments.output == "-":
        _write(arguments.output, output)
    return 0 if good else 1


def _listed(stages: dict[str, Stage]) -> str:
    """The stages of FX graphs and then of MLIR, each with its passes."""
    from cuesta.frontend.fx_pipelines import FX_STAGES  # loads torch

    fx = "".join(f"{s.name} (FX: {s.about})\n    {','.join(p.name for p in s.passes)}\n" for s in FX_STAGES)
    return fx + "".join(f"{name}\n    {stage.pipeline}\n" for name, stage in stages.items())


def _steps(arguments: argparse.Namespace) -> list[Step]:
    """The passes to run, one per step, so that an error names one pass."""
    if arguments.first is None and arguments.last is None:
        return list(Pipeline.parse(arguments.pass_pipeline).passes) if arguments.pass_pipeline is not None else []
    if arguments.pass_pipeline is not None:
        raise OptionError("--pass-pipeline and --from/--to exclude each other")
    stages = _stages(arguments)
    names = list(stages)
    for option, name, valid in (("--from", arguments.first, ["import", *names]), ("--to", arguments.last, names)):
        if name is not None and name not in valid:
            raise OptionError(f"{option}: no stage named {name!r}; the stages are {', '.join(valid)}")
    # A stage is named after the level that it produces, so a module at level --from starts with the next stage.
    begin = 0 if arguments.first in (None, "import") else names.index(arguments.first) + 1
    end = len(names) if arguments.last is None else names.index(arguments.last) + 1
    if end < begin:
        raise OptionError(f"--to {arguments.last} comes before --from {arguments.first}: {' → '.join(names)}")
    texts = [stages[name].pipeline for name in names[begin:end]]
    if arguments.target is not None and begin == 0:
        texts.insert(0, f"builtin.module(set-target{{target={arguments.target}}})")
    return [step for text in texts for step in Pipeline.parse(text).passes]


def _stages(arguments: argparse.Namespace) -> dict[str, Stage]:
    return stages_for(parse_target(arguments.target or "cpu"))


def _write_kernels(module: ir.Module, arguments: argparse.Namespace) -> None:
    """Writes each kernel as text, assembly and binary. Needs no GPU."""
    from cuesta.cache import open_cache
    from cuesta.lowering.tt_to_binary.target_kernels import make_kernels, write_kernels
    from cuesta.options import Environment

    target = parse_target(arguments.target or "cpu")
    kernels = make_kernels(module, target, open_cache(Environment.read().cache_dir))
    if not kernels:
        raise OptionError("--kernels needs a module with kernels at stage tt; --from and --to lead there")
    try:
        write_kernels(kernels, target, arguments.kernels)
    except OSError as error:
        raise CuestaError(f"cannot write to {arguments.kernels}: {error.strerror}") from None


def _warn_of_level(context: ir.Context, source: Source, first: str) -> None:
    """Prints a note if `--from` does not match the input's level, which may have caused a failure."""
    from cuesta.tools.cuesta_run import detect_level

    try:
        found = detect_level(ir.Module.parse(source.text, context))
    except (CuestaError, ir.MLIRError):  # already reported
        return
    levels = {"import": "graph"}  # only a pass can tell these two apart
    if levels.get(found, found) != levels.get(first, first):
        print(f"note: this looks like a module at level {found!r}; --from says where to begin", file=sys.stderr)


def _write(path: str, text: str) -> None:
    if path == "-":
        write_to_stdout(text)
        return
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise CuestaError(f"cannot write {path}: {error.strerror}") from None


def _describe(name: str, cls: type[Pass]) -> str:
    """`name{option=default …}`, and on a second line the first line of the pass's docstring."""
    options = [f"{f.name.replace('_', '-')}={f.default}" for f in dataclasses.fields(cls)]
    documentation = cls.__doc__ or ""
    if not documentation or documentation.startswith(f"{cls.__name__}("):  # generated by dataclass: use the module's
        documentation = inspect.getdoc(sys.modules[cls.__module__]) or ""
    return (
        f"{name}{'{' + ' '.join(options) + '}' if options else ''}\n    {documentation.strip().partition(chr(10))[0]}"
    )


if __name__ == "__main__":
    sys.exit(main())
