"""cuesta-run: runs a module of any level on .npy files or seeded random inputs, natively or by its torch reference."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import cuesta.dialects as dialects
from cuesta._mlir import func, ir
from cuesta.dialects import types
from cuesta.dialects.reference import find_function, run_in_place
from cuesta.driver.lower import compile_module
from cuesta.errors import CuestaError
from cuesta.options import Options
from cuesta.passes.graph.default_strides import add_strides
from cuesta.passes.infra.diagnostics import Diagnostic
from cuesta.passes.infra.pipeline import hints_of
from cuesta.passes.pipelines import STAGES
from cuesta.tools import tt_kernels
from cuesta.tools.command_line import Parser, Source, write_to_stdout
from cuesta.tools.entry_points import ShowVersions
from cuesta.tools.module_inputs import arguments_of, random_inputs, read_inputs, symbols_of

#: The levels that can be run: from the importer's output down to the last level with one host function.
LEVELS = ("import", *(name for name in STAGES if name != "llvm"))
#: The level of a module that has only GPU kernels; the numpy interpreter runs them.
KERNEL_LEVEL = "tt"
_WITH_REFERENCE = ("import", "graph")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit status: 0, or 1 after any failure or difference."""
    try:
        return _run(_parse_arguments(argv))
    except CuestaError as error:
        print(f"cuesta-run: error: {error}", file=sys.stderr)
    except IndexError as error:  # raised by a compiled program for an index out of range
        print(f"cuesta-run: error: {error} (--int-range sets the range of random integers)", file=sys.stderr)
    except BrokenPipeError:
        pass  # the reader (head, less) has closed the pipe
    return 1


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="cuesta-run", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action=ShowVersions)
    parser.add_argument("file", help="an .mlir or bytecode file; -: stdin")
    parser.add_argument(
        "--level", choices=(*LEVELS, KERNEL_LEVEL), help="the level of the module (default: recognised)"
    )
    parser.add_argument("--function", metavar="NAME", help="the function to run (default: @graph, or the only one)")
    inputs = parser.add_argument_group("inputs")
    inputs.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NPY",
        help="a file for each argument, in order (default: random)",
    )
    inputs.add_argument("--seed", type=int, default=0, help="seed of random inputs (0)")
    inputs.add_argument(
        "--int-range", default="0:2", metavar="LOW:HIGH", help="range of random integers, HIGH excluded (0:2)"
    )
    inputs.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="value of a symbol in the module's sizes (default: its hint)",
    )
    runs = parser.add_argument_group("how to run")
    runs.add_argument("--checked", action="store_true", help="check each access of memory: one outside is an error")
    runs.add_argument("--reference", action="store_true", help="run op by op in torch, without compiling")
    runs.add_argument("--compare-reference", action="store_true", help="run both ways and compare; 1 if they differ")
    parser.add_argument("-o", dest="output", metavar="DIR", help="write each result there as result_N.npy")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    with dialects.make_context(), ir.Location.unknown():
        module = _parse(Source.read(arguments.file))
        level = _level(module, arguments.level)
        if (arguments.reference or arguments.compare_reference) and level not in _WITH_REFERENCE:
            raise CuestaError(f"only ops of the cuesta dialect have a reference; this module is at level {level!r}")
        if tt_kernels.kernels_of(module):
            int_range = _range(arguments.int_range)
            results = tt_kernels.run(module, arguments.function, arguments.input, arguments.seed, int_range)
            _report(results, arguments.output)
            return 0
        function = _function(module, arguments.function)
        add_strides(function)
        values = _sizes(function, hints_of(module), arguments.size)
        if values and (arguments.reference or arguments.compare_reference):
            raise CuestaError(f"the reference takes numbers as sizes; this module has {', '.join(values)}")
        wanted = arguments_of(function, values)
        if arguments.input:
            tensors = read_inputs(wanted, arguments.input)
        else:
            tensors = random_inputs(wanted, arguments.seed, _range(arguments.int_range))
        dialects.verify(module, "reading")
        name = function.name.value
        if arguments.reference:
            results = run_in_place(module, tensors, name)
        else:
            copies = [x.clone() for x in tensors]
            expected = run_in_place(module, copies, name) if arguments.compare_reference else []
            options = Options.from_torch(None, {"checked": arguments.checked})
            program = compile_module(module, from_stage=level, options=options)
            if not program.admits(values):
                raise CuestaError(
                    f"the program compiled for {_spelled(hints_of(module))} does not admit {_spelled(values)}"
                )
            results = program.with_sizes(values)(tensors)
    _report(results, arguments.output)
    if arguments.compare_reference and not arguments.reference:
        return _compare([*results, *tensors], [*expected, *copies], len(results))
    return 0


def _sizes(function: func.FuncOp, hints: dict[str, int], given: Sequence[str]) -> dict[str, int]:
    """The values of a module's symbols: its hints, overridden by --size. Raises CuestaError for an invalid --size."""
    values = dict(hints)
    known = sorted({*hints, *symbols_of(function)})
    for text in given:
        name, _, number = text.partition("=")
        if not number.isdecimal():
            raise CuestaError(f"--size takes NAME=NUMBER, such as s0=8, got {text!r}")
        if name not in known:
            there = f"the symbols are {', '.join(known)}" if known else "there is none"
            raise CuestaError(f"--size {text}: the module has no symbol {name!r} in its sizes; {there}")
        values[name] = int(number)
    return values


def _spelled(values: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _report(results: list[torch.Tensor], folder: str | None) -> None:
    write_to_stdout("".join(f"{_describe(i, result)}\n" for i, result in enumerate(results)))
    if folder is not None:
        _write(Path(folder), results)


def _parse(source: Source) -> ir.Module:
    try:
        return ir.Module.parse(source.text)
    except ir.MLIRError as error:
        first = Diagnostic.from_mlir(error.error_diagnostics[0]).renamed("-", source.name)
        place = "" if first.line else f"{source.name}: "
        raise CuestaError(place + str(first).partition("\n")[0]) from None


def _function(module: ir.Module, name: str | None) -> func.FuncOp:
    functions = [op for op in module.body.operations if isinstance(op, func.FuncOp) and not op.is_external]
    if name is None and len(functions) == 1:
        return functions[0]
    chosen = find_function(module, name or "graph")
    for other in functions:
        if other != chosen:  # compile_module expects a single host function
            other.operation.erase()
    return chosen


def _level(module: ir.Module, given: str | None) -> str:
    found = detect_level(module)
    split = [level in ("kernels", "tiled", "buffers", "loops", KERNEL_LEVEL) for level in (given or found, found)]
    if split[0] != split[1]:
        raise CuestaError(
            f"--level {given} does not fit: kernels {'are' if split[1] else 'are not'} in a module of their own here"
        )
    return given or found


def detect_level(module: ir.Module) -> str:
    """Detects a module's level from its ops. Raises CuestaError if the level is below those that can be run."""
    operations = list(dialects.walk(module.operation))
    names = {op.name for op in operations}
    if "llvm.func" in names:
        raise CuestaError(
            f"a module at level 'llvm' does not describe its arguments; the levels are {', '.join(LEVELS)}"
        )
    if "tt.func" in names:
        return KERNEL_LEVEL
    if "builtin.module" in names:
        return _kernel_level(operations, names)
    lowered = any(n.startswith("linalg.") for n in names) or any("dtypes" in op.attributes for op in operations)
    return "linalg" if lowered else "import"


def _kernel_level(operations: list[ir.Operation], names: set[str]) -> str:
    kernels = next(op for op in operations if op.name == "builtin.module")
    inside = list(dialects.walk(kernels))
    if any(op.name.startswith("affine.") for op in inside):
        return "loops"
    if any(isinstance(r.type, ir.RankedTensorType) for op in inside for r in op.results) or not inside:
        return "tiled" if names & {"scf.forall", "bufferization.materialize_in_destination"} else "kernels"
    return "buffers"


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    try:
        found = int(low), int(high)
    except ValueError:
        raise CuestaError(f"--int-range takes LOW:HIGH, such as 0:10, got {text!r}") from None
    if found[0] >= found[1]:
        raise CuestaError(f"--int-range {text} holds no number: HIGH is excluded")
    return found


def _describe(index: int, x: torch.Tensor) -> str:
    head = f"result {index}: {types.SPELLING[x.dtype]}[{', '.join(map(str, x.shape))}] strides {tuple(x.stride())}"
    if x.numel() and not x.dtype.is_complex:
        numbers = x.detach().double()
        statistics = {"min": numbers.min(), "max": numbers.max(), "mean": numbers.mean()}
        head += "".join(f"  {name} {value.item():.6g}" for name, value in statistics.items())
    body = np.array2string(_as_numpy(x), precision=4, threshold=12, edgeitems=2, prefix="  ")
    return f"{head}\n  {body}"


def _as_numpy(x: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


def _write(folder: Path, results: list[torch.Tensor]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for i, result in enumerate(results):
            np.save(folder / f"result_{i}.npy", _as_numpy(result))
    except OSError as error:
        raise CuestaError(f"cannot write to {folder}: {error.strerror}") from None


def _compare(actual: list[torch.Tensor], expected: list[torch.Tensor], results: int) -> int:
    """Compares results, and arguments after the run, with the reference's. Prints differences; returns 1 if any."""
    good = True
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        what = f"result {i}" if i < results else f"argument {i - results}"
        try:
            torch.testing.assert_close(a, e, equal_nan=True)
        except AssertionError as difference:
            print(f"{what} differs from the reference: {' '.join(str(difference).split())}")
            good = False
    if good:
        print("all results agree with the reference")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
