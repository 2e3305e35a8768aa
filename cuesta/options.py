"""Defines every torch.compile mode and option that cuesta takes, and every environment variable that it reads.

    torch.compile(model, backend="cuesta", mode="reduce-overhead")
    torch.compile(model, backend="cuesta", options={"fusion": False, "dump": "ir"})

torch hands mode and options to a backend unchecked; `Options.from_torch` checks them. An option that
is accepted without effect says so in its description.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuesta.cache import default_root
from cuesta.errors import OptionError
from cuesta.targets import Target, list_targets, parse_target

_log = logging.getLogger("cuesta.options")


def _variable(default: Any, name: str, description: str) -> Any:
    """A field of Environment."""
    return field(default=default, metadata={"name": name, "description": description})


#: Why an op is called in ATen that is not to become another one, which computes the same with other bits.
EAGERS_BITS = "with bitwise_eager, ATen's own kernel gives eager's bits"
#: Likewise with the same random numbers.
EAGERS_NUMBERS = "with fallback_random, ATen's own kernel draws eager's numbers"


@dataclass(frozen=True)
class Environment:
    """The environment variables of cuesta, read once per compile."""

    dump: Path | None = _variable(None, "CUESTA_DUMP", "Folder for the IR of every stage of every graph.")
    cache_dir: Path | None = _variable(
        None,
        "CUESTA_CACHE_DIR",
        "Folder of the cache, `~/.cache/cuesta` by default, which only you may write; set but empty: no cache.",
    )
    progress: bool = _variable(
        False,
        "CUESTA_PROGRESS",
        "Set: report the progress of long compiles of GPU kernels on stderr, even if it is no terminal.",
    )
    perf_map: bool = _variable(
        False,
        "CUESTA_PERF_MAP",
        "Set: write the names of compiled functions where Linux's `perf` looks for them, /tmp/perf-PID.map.",
    )
    strict: bool = _variable(
        False,
        "CUESTA_STRICT",
        "Set: a kernel that does not compile is an error. Unset: its ops are called in ATen, with a warning.",
    )
    xpu_python: str | None = _variable(
        None, "CUESTA_XPU_PYTHON", "The Python of an environment that has triton-xpu, for target `xpu`."
    )

    @staticmethod
    def read(variables: Mapping[str, str] | None = None) -> Environment:
        """What `variables`, os.environ by default, say now."""
        variables = os.environ if variables is None else variables
        for name in variables:
            if name.startswith(_PREFIX) and name not in _FOR_USERS + _FOR_TESTS:
                _warn_of_unknown(name)
        dump = variables.get("CUESTA_DUMP")
        return Environment(
            _folder("CUESTA_DUMP", dump) if dump else None,
            default_root(variables),
            progress=bool(variables.get("CUESTA_PROGRESS")),
            perf_map=bool(variables.get("CUESTA_PERF_MAP")),
            strict=bool(variables.get("CUESTA_STRICT")),
            xpu_python=variables.get("CUESTA_XPU_PYTHON") or None,
        )


_PREFIX = "CUESTA_"
_FOR_USERS = tuple(field.metadata["name"] for field in dataclasses.fields(Environment))
#: For cuesta's own tests: at full size, of another backend, and with an error in place of some warnings.
_FOR_TESTS = ("CUESTA_FULL", "CUESTA_TEST_BACKEND")


@functools.cache
def _warn_of_unknown(name: str) -> None:
    """Says once in a process that nothing reads a variable."""
    near = _near(name, list(_FOR_USERS))
    _log.warning(
        "%s", f"the environment variable {name} has no effect{near.rstrip('?')}; cuesta reads {', '.join(_FOR_USERS)}"
    )


def _option(
    default: Any,
    description: str,
    *,
    name: str = "",
    choices: tuple[str, ...] = (),
    affects_code: bool = False,
    in_key: bool = True,
) -> Any:
    """A field of Options. `name` is torch's spelling where it is no Python identifier, `choices` what a str may be.
    `in_key` is whether the default is spelled in keys: not where they are to stay what they were without the option."""
    metadata = {
        "name": name,
        "description": description,
        "choices": choices,
        "affects_code": affects_code,
        "in_key": in_key,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Options:
    """The options of one compile. Build it with `from_torch`, which checks names and types."""

    # Documented for torch.compile
    epilogue_fusion: bool = _option(
        True,
        "Fuse the ops that follow a matrix product or a convolution into it: in kernels of `gemm` and in cuDNN's "
        "calls. Off: they are a kernel of their own.",
        affects_code=True,
    )
    max_autotune: bool = _option(
        False,
        "Time several ways to compute matrix products, and on CPU several tiles of kernels. The fastest are used and "
        "remembered (see below).",
        affects_code=True,
    )
    fallback_random: bool = _option(
        False,
        "Draw the random numbers that eager draws. Off: the same on CPU, and on a GPU for all but dropout (see below).",
        affects_code=True,
    )
    overlap_launches: bool = _option(
        True,
        "Let a kernel begin before the one in front has ended, on NVIDIA GPUs from capability 9.0 on. Off: slower, but "
        "a profile shows how long each kernel takes, without its wait for the one in front.",
        affects_code=True,
    )
    shape_padding: bool = _option(False, "No effect: where padding would pay, cuesta multiplies in kernels of its own.")
    cudagraphs: bool = _option(
        False,
        "Record a GPU program's launches once and replay them. No effect on CPU.",
        name="triton.cudagraphs",
    )
    trace_enabled: bool = _option(
        False,
        "Dump every stage, kernel and report; to cuesta_dump/ where neither `dump` nor CUESTA_DUMP names a folder.",
        name="trace.enabled",
    )
    trace_graph_diagram: bool = _option(
        False,
        "Dump as `trace.enabled` does, with a picture of each graph: kernels, calls into ATen, sizes (graph.svg).",
        name="trace.graph_diagram",
    )
    freezing: bool = _option(
        False,
        "Keep the weights of an inference graph's products and convolutions packed, on CPU (see below).",
        affects_code=True,
    )
    # cuesta's own
    target: Target | None = _option(
        None,
        f"What to compile for ({', '.join(list_targets())}). None: the device of the tensors.",
        affects_code=True,
    )
    fusion: bool = _option(True, "Group ops into kernels. Off: one kernel for each op.", affects_code=True)
    gemm: str = _option(
        "auto",
        "What computes matrix products: a `kernel` of cuesta's, fused with the ops that follow (on CPU for f32 and "
        "f16), or the `library`. `auto` on a CPU with AVX-512: a kernel for few rows, for a vector by a matrix of bf16 "
        "or f16, for f16 on a CPU without f16 arithmetic, and where a kernel was measured to be faster (see below). "
        "`auto` on a GPU: a kernel for a vector by a matrix with contiguous rows, as of a linear layer, for up to 16 "
        "rows of bf16 or f16 by a large one, and where rows of bf16 or f16 are no multiple of 16 bytes. With "
        "`max_autotune`: the faster for each product.",
        choices=("auto", "library", "kernel"),
        affects_code=True,
    )
    attention: str = _option(
        "auto",
        "What computes attention of f32 and bf16 without dropout on a CPU, and of fewer than 8 queries in f16 too: a "
        "`kernel` of cuesta's, or the `library`. `auto`, with AVX-512: a kernel for fewer than 8 queries, as when text "
        "is made token by token, for more in bf16 where the machine has no AMX, and in f32 if one was measured to be "
        "faster on this machine (see below). On a GPU, flex_attention and other products around a softmax: `auto` "
        "makes one kernel of them, one of each gradient, and two of attention of few queries, whose keys are split "
        "among programs, in bf16 and f16 on CUDA, `kernel` of f32 too, and on every GPU. Attention under a mask that "
        "is a tensor is such a kernel on CUDA where no gradient is wanted, but with `library`.",
        choices=("auto", "library", "kernel"),
        affects_code=True,
    )
    # 3 makes no kernel faster than 2, and the LLVM of torch-mlir 20261001 mixes up rows of small loops at it.
    opt_level: int = _option(2, "LLVM's optimisation level for kernels and host program, 0 to 3.", affects_code=True)
    bitwise_eager: bool = _option(
        False,
        "Give the bits of eager's results on CPU. Only ops that can be rounded in one way are compiled (see below).",
        affects_code=True,
    )
    memory_limit: int | None = _option(
        None,
        "The most bytes that a call, or a training step, may take beside its arguments. A graph that needs more is "
        "refused before anything runs (see below).",
        affects_code=True,
    )
    tiered: bool = _option(
        False,
        "Do not wait in the first call: it runs op by op while another process compiles. The program takes over when "
        "it is ready (see below).",
    )
    checked: bool = _option(
        False,
        "Find errors of memory: each read and write of a kernel is checked to be inside its buffer, and the memory "
        "around buffers is watched. A BoundsError names an access outside, which is not carried out. Slow. GPU kernels "
        "are checked with target `tt` only (see below).",
        affects_code=True,
        in_key=False,
    )
    cache: bool = _option(True, "Keep compiled graphs on disk, and load them from there.")
    cache_dir: Path | None = _option(None, "Folder of that cache. None: CUESTA_CACHE_DIR.")
    dump: Path | None = _option(None, "Folder for the IR of every stage. None: CUESTA_DUMP.")
    verify: bool = _option(True, "Verify the IR after every stage.")

    @staticmethod
    def from_torch(
        mode: str | None = None, options: Mapping[str, Any] | None = None, environment: Environment | None = None
    ) -> Options:
        """Options as torch.compile passes them; an explicit option goes before its mode's.

        Raises OptionError for an unknown mode or option, or a value of the wrong type; the message
        names it, what is near it and what is valid.
        """
        if options is not None and not isinstance(options, Mapping):
            raise OptionError(f"options takes a dict of option names to values, got {_show(options)}")
        environment = Environment.read() if environment is None else environment
        values = {_identifier(name): value for name, value in list_mode_options(mode or "default").items()}
        for name, value in (options or {}).items():
            option = _find(name)
            values[option.name] = _check(option, name, value)
        chosen = Options(**values)
        dump = chosen.dump or environment.dump
        if (chosen.trace_enabled or chosen.trace_graph_diagram) and dump is None:
            dump = Path("cuesta_dump").absolute()
        return dataclasses.replace(chosen, dump=dump, cache_dir=chosen.cache_dir or environment.cache_dir)

    @property
    def cache_root(self) -> Path | None:
        """The folder of the cache, or None where nothing is cached."""
        return self.cache_dir if self.cache else None

    def key(self) -> str:
        """The options that change compiled code, as text that is the same in every process."""
        spelled = (o for o in _OPTIONS if o.metadata["in_key"] or getattr(self, o.name) != o.default)
        return ";".join(f"{_name(o)}={getattr(self, o.name)!r}" for o in spelled if o.metadata["affects_code"])


_OPTIONS = dataclasses.fields(Options)

_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {"fusion": False, "epilogue_fusion": False, "opt_level": 1},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True},
}

#: What a mode does, to read.
MODE_EFFECTS = {
    "default": "For most uses: ops are fused, and LLVM optimises fully.",
    "lite": "One kernel for each op, little optimisation: for finding the op or the fusion at fault.",
    "reduce-overhead": "GPU: launches are recorded once and replayed. CPU: no effect, a call has no launches to save.",
    "max-autotune-no-cudagraphs": "Alternatives are timed once on a machine, and the fastest are used.",
    "max-autotune": "max-autotune-no-cudagraphs and reduce-overhead together.",
}


def list_options() -> list[str]:
    """The names that torch.compile's `options` may hold, as torch._inductor.list_options does."""
    return [_name(option) for option in _OPTIONS]


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The options that a mode sets; for None, every mode with its options. `dynamic` changes nothing.

    Raises OptionError for a mode that does not exist.
    """
    if mode is None:
        return {name: dict(options) for name, options in _MODES.items()}
    if not isinstance(mode, str) or mode not in _MODES:
        near = _near(str(mode), list(_MODES))
        raise OptionError(f"unknown mode {mode!r}{near}; the modes are {', '.join(_MODES)}")
    return dict(_MODES[mode])


def options_of(kind: type[Options] | type[Environment]) -> Iterator[tuple[str, str, Any, str]]:
    """Name, type, default and description of each option, or of each environment variable."""
    for option in dataclasses.fields(kind):
        yield option.metadata["name"] or option.name, str(option.type), option.default, option.metadata["description"]


def describe_options() -> str:
    """A line for each option: name, type, default, what it does."""
    return "\n".join(f"{name}: {kind} = {default!r}  {text}" for name, kind, default, text in options_of(Options))


def _name(option: dataclasses.Field[Any]) -> str:
    return option.metadata["name"] or option.name


def _identifier(name: str) -> str:
    return _find(name).name


def _find(name: Any) -> dataclasses.Field[Any]:
    # torch takes fallback-random for fallback_random.
    spelled = name.replace("-", "_") if isinstance(name, str) else name
    for option in _OPTIONS:
        if _name(option) == spelled:
            return option
    near = _near(str(spelled), list_options())
    raise OptionError(f"unknown option {name!r}{near}; the options are {', '.join(list_options())}")


def _check(option: dataclasses.Field[Any], name: str, value: Any) -> Any:
    """`value` as the option holds it."""
    if option.type == "bool" and isinstance(value, bool):
        return value
    if option.type == "int":
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 3:
            return value
        raise OptionError(f"option {name!r} takes an int from 0 to 3, got {_show(value)}")
    if option.type == "int | None":
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
            return value
        raise OptionError(f"option {name!r} takes a number of bytes above 0 or None, got {_show(value)}")
    if option.type == "str":
        choices = option.metadata["choices"]
        if value in choices:
            return value
        near = _near(str(value), list(choices))
        raise OptionError(f"option {name!r} takes one of {', '.join(choices)}, got {_show(value)}{near}")
    if option.type == "Path | None":
        if value is None:
            return None
        if isinstance(value, (str, os.PathLike)) and os.fspath(value):
            return _folder(f"option {name!r}", value)
        raise OptionError(f"option {name!r} takes a folder or None, got {_show(value)}")
    if option.type == "Target | None":
        if value is None or isinstance(value, Target):
            return value
        if isinstance(value, str):
            return parse_target(value)
        raise OptionError(f"option {name!r} takes one of {', '.join(list_targets())}, got {_show(value)}")
    raise OptionError(f"option {name!r} takes a {option.type}, got {_show(value)}")


def _folder(what: str, path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:  # ~ of a user who does not exist
        raise OptionError(f"{what} names no folder: {os.fspath(path)!r}: {error}") from None


def _show(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"


def _near(word: str, words: list[str]) -> str:
    near = difflib.get_close_matches(word, words, n=3)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
