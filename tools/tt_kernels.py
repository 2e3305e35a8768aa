"""Runs single kernels for cuesta-run: each tt.func at the top of a module, with the numpy interpreter.

A pointer has no sizes, so they come from the argument's attribute `cuesta.shape` or from the given .npy file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import cuesta.dialects as dialects
from cuesta._mlir import ir
from cuesta.dialects import tt, types
from cuesta.dialects.fields import Ints
from cuesta.dialects.graph_function import DTYPE
from cuesta.dialects.kernel_fields import GRID
from cuesta.dialects.tt.interpreter import prepare
from cuesta.dialects.types import row_major
from cuesta.errors import CuestaError
from cuesta.sizes import at
from cuesta.tools.module_inputs import Argument, random_inputs, read_inputs

#: Of an argument: the sizes of the tensor that it points to.
_SHAPE = Ints("cuesta.shape")


def kernels_of(module: ir.Module) -> dict[str, ir.Operation]:
    """Name → kernel at the top of a module. Kernels of a whole program are in a nested module and do not count."""
    found = [op.operation for op in module.body.operations if tt.Func.matches(op.operation)]
    return {tt.Func.sym_name.of(op): op for op in found}


def run(
    module: ir.Module, name: str | None, paths: list[str], seed: int, int_range: tuple[int, int]
) -> list[torch.Tensor]:
    """Runs a kernel on .npy files, or on random numbers if there are none; returns the arguments that it writes.

    Raises CuestaError if the kernel lacks a required attribute, and for accesses outside the arguments.
    """
    dialects.verify(module, "reading")
    kernel = _chosen(kernels_of(module), name)
    if not GRID.is_on(kernel):
        raise CuestaError(f"the kernel lacks {GRID.name}, the number of programs such as [64, 1, 1]")
    wanted = _arguments(kernel, paths)
    tensors = read_inputs(wanted, paths) if paths else random_inputs(wanted, seed, int_range)
    prepared = prepare(kernel)
    pointers, extents = [x.data_ptr() for x in tensors], [x.numel() * x.itemsize for x in tensors]
    prepared.run(GRID.known(kernel), pointers, extents)
    return [tensors[i] for i in prepared.written]


def _chosen(kernels: dict[str, ir.Operation], name: str | None) -> ir.Operation:
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name not in kernels:
        asked = "several kernels, and --function is missing" if name is None else f"no kernel @{name}"
        raise CuestaError(f"the module has {asked}; --function takes one of {', '.join(kernels)}")
    return kernels[name]


def _arguments(kernel: ir.Operation, paths: Sequence[str]) -> list[Argument]:
    found = []
    for index, (argument, attrs) in enumerate(
        zip(kernel.regions[0].blocks[0].arguments, tt.Func.arg_attrs.of(kernel), strict=True)
    ):
        if not tt.is_pointer(argument) or tt.is_block(argument):
            raise CuestaError(f"argument {index} is {argument.type}: only pointers are supported")
        if (known := _SHAPE.find_in(attrs)) is not None:
            shape = tuple(known)
        elif index < len(paths):
            shape = _shape_in(paths[index])
        else:
            raise CuestaError(
                f"argument {index} is {argument.type}: its arg_attrs lack {_SHAPE.name}, such as [64, 128]"
            )
        spelling = DTYPE.find_in(attrs) or str(tt.pointee(argument))
        strides = tuple(at(n, {}) for n in row_major(shape))
        found.append(Argument(index, shape, strides, types.torch_dtype(spelling)))
    return found


def _shape_in(path: str) -> tuple[int, ...]:
    try:
        return tuple(np.load(Path(path), mmap_mode="r", allow_pickle=False).shape)
    except (OSError, ValueError, EOFError) as problem:
        raise CuestaError(f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}") from None
