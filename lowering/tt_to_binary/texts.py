"""Converts the kernels of a module at the tt level to the texts that Triton reads."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import GRID, STAGES, WARPS
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.tt.text import kernel_text
from cuesta.lowering.tt_to_binary.kernel import Grid, KernelText


def kernel_texts(module: ir.Module) -> list[KernelText]:
    """The text of every kernel of `module`, in the order of the module."""
    return [_text(op) for op in _kernels(module)]


def kernel_grids(module: ir.Module) -> list[Grid]:
    """How many programs of each kernel there are along x, y and z, in the same order."""
    return [grid_of(op) for op in _kernels(module)]


def grid_of(function: ir.Operation) -> Grid:
    """How many programs of a kernel there are along x, y and z; text in terms of the kernel's parameters p0, p1, … if
    the count depends on them."""
    x, y, z = (size.value for size in function.attributes[GRID.name])
    return x, y, z


def _kernels(module: ir.Module) -> list[ir.Operation]:
    return [
        view.operation
        for nested in kernel_modules(module)
        for view in nested.body.operations
        if tt.Func.matches(view.operation)
    ]


def _text(function: ir.Operation) -> KernelText:
    return KernelText(tt.Func.sym_name.of(function), kernel_text(function), WARPS.of(function), STAGES.of(function))
