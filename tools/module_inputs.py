"""Makes the input tensors of a module's function, from .npy files or seeded random numbers, with its strides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from cuesta._mlir import func, ir
from cuesta.dialects import types
from cuesta.dialects.graph_function import DTYPE, STRIDES, argument_attributes, strides_of_arguments
from cuesta.dialects.reference import with_strides
from cuesta.errors import CuestaError
from cuesta.passes.graph.default_strides import known_sizes
from cuesta.sizes import at, symbols


@dataclass(frozen=True)
class Argument:
    """One tensor argument of a function."""

    index: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


def arguments_of(function: func.FuncOp, values: Mapping[str, int] = MappingProxyType({})) -> list[Argument]:
    """The arguments of `function` for these values of the symbols in its sizes. Its arguments must have strides.

    Raises CuestaError for an element type that torch lacks, or a symbol without a value.
    """
    found = []
    kinds = function.type.inputs
    for index, kind in enumerate(kinds):
        shaped = ir.ShapedType(kind)
        attrs = argument_attributes(function)[index]
        spelling = DTYPE.find_in(attrs) or str(shaped.element_type)
        try:
            dtype = types.torch_dtype(spelling)
        except KeyError:
            raise CuestaError(f"argument {index} is {kind}: torch has no dtype for {spelling}") from None
        sizes, strides = known_sizes(kind), STRIDES.in_(attrs)
        assert sizes is not None
        if missing := {name for n in (*sizes, *strides) for name in symbols(n)} - set(values):
            raise CuestaError(f"argument {index} is {kind}: --size says what {', '.join(sorted(missing))} is, as s0=8")
        shape, steps = (tuple(at(n, values) for n in part) for part in (sizes, strides))
        found.append(Argument(index, shape, steps, dtype))
    return found


def symbols_of(function: func.FuncOp) -> set[str]:
    """The symbols in the sizes and strides of `function`'s arguments."""
    kinds = function.type.inputs
    strides = strides_of_arguments(function)
    return {
        name
        for kind, steps in zip(kinds, strides, strict=True)
        for n in (*(known_sizes(kind) or ()), *steps)
        for name in symbols(n)
    }


def random_inputs(arguments: list[Argument], seed: int, int_range: tuple[int, int]) -> list[torch.Tensor]:
    """Random arguments: normal floats and complex numbers, integers from [low, high), fair booleans."""
    generator = torch.Generator().manual_seed(seed)
    return [with_strides(_random(a, generator, int_range), a.strides) for a in arguments]


def _random(argument: Argument, generator: torch.Generator, int_range: tuple[int, int]) -> torch.Tensor:
    if argument.dtype.is_floating_point or argument.dtype.is_complex:
        wide = torch.complex64 if argument.dtype.is_complex else torch.float32
        return torch.randn(argument.sizes, generator=generator, dtype=wide).to(argument.dtype)
    low, high = (0, 2) if argument.dtype == torch.bool else int_range
    return torch.randint(low, high, argument.sizes, generator=generator).to(argument.dtype)


def read_inputs(arguments: list[Argument], paths: list[str]) -> list[torch.Tensor]:
    """Reads the arguments from .npy files. bf16, which numpy lacks, is converted from float32.

    Raises CuestaError, which names the file, if a file cannot be read or does not match its argument.
    """
    if len(paths) != len(arguments):
        raise CuestaError(f"the function takes {len(arguments)} tensors, {len(paths)} --input were given")
    return [_read(argument, path) for argument, path in zip(arguments, paths, strict=True)]


def _read(argument: Argument, path: str) -> torch.Tensor:
    try:
        x = torch.from_numpy(np.load(Path(path), allow_pickle=False))
    except (OSError, ValueError, TypeError, EOFError) as problem:
        raise CuestaError(f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}") from None
    if argument.dtype == torch.bfloat16 and x.dtype == torch.float32:
        x = x.bfloat16()
    if tuple(x.shape) != argument.sizes or x.dtype != argument.dtype:
        wanted, found = (_describe(s, d) for s, d in ((argument.sizes, argument.dtype), (tuple(x.shape), x.dtype)))
        raise CuestaError(f"{path} holds {found}, argument {argument.index} is {wanted}")
    return with_strides(x, argument.strides)


def _describe(sizes: tuple[int, ...], dtype: torch.dtype) -> str:
    return f"{types.SPELLING.get(dtype, dtype)}[{', '.join(map(str, sizes))}]"
