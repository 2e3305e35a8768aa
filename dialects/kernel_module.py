"""Names and reads `module @kernels`, which holds the kernels once they are separated from the host function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuesta._mlir import func, ir, memref, scf
from cuesta.dialects.affine_maps import operand_dims
from cuesta.dialects.graph_function import argument_attributes
from cuesta.dialects.host import Launch
from cuesta.dialects.kernel_fields import BUFFER_LAYOUT, CLASSES, SHAPE, TILES_ALONG, WORK
from cuesta.dialects.kernel_scatter import KernelScatter, is_scatter
from cuesta.dialects.named_linalg import is_fill, is_generic
from cuesta.sizes import Number, Size

#: Suffixes: of a kernel's function over a range of its tiles, and of the function that runs once after all tiles.
TILES, TAIL = "__tiles", "__tail"

#: Suffix of the version of a kernel's tiles for sizes that are multiples of its vectors.
ALIGNED = "__aligned"
#: Attribute of a loop: hints for LLVM.
LOOP_ANNOTATION = "llvm.loop_annotation"
#: Suffix of the function for a kernel's partial tiles, which are cut off at the end of a size.
REST = "__rest"


def kernel_modules(module: ir.Module) -> list[ir.Module]:
    """The modules that hold kernels: those nested in `module`."""
    return [op for op in module.body.operations if op.operation.name == "builtin.module"]


def parameters(function: func.FuncOp) -> dict[str, ir.Value]:
    """The sizes and strides that a kernel is passed, by their names p0, p1, …"""
    indices = [a for a in function.regions[0].blocks[0].arguments if isinstance(a.type, ir.IndexType)]
    return {f"p{i}": value for i, value in enumerate(indices)}


def launch_parameters(launch: ir.Operation) -> list[Number]:
    """The sizes that a host.launch passes its kernel, for its parameters p0, p1, …"""
    return Launch.parameters.find(launch) or []


def launched_kernels(launch: ir.Operation) -> list[str]:
    """The versions of a kernel of a host.launch, which runs the first version that is valid for its sizes."""
    return [Launch.kernel.of(launch), *(Launch.otherwise.find(launch) or [])]


def conditions(launch: ir.Operation) -> list[Number]:
    """For each of `launched_kernels`, a number that is 0 if the kernel is valid, else positive; 0 for the last."""
    return [*map(sum, Launch.unless.find(launch) or []), 0]


def is_computed_with(parameter: ir.Value) -> bool:
    """Whether the body of a generic computes with a parameter."""
    return any(is_generic(use.owner.operation.parent) for use in parameter.uses)


def sized(function: func.FuncOp) -> bool:
    """Whether a kernel's buffers have sizes that are passed to it."""
    return any(isinstance(op, memref.ReinterpretCastOp) for op in function.regions[0].blocks[0].operations)


def operand_classes(op: ir.Operation) -> list[list[int]]:
    """For each operand of a kernel's generic or scatter, the classes of its dims, without dims that no loop walks."""
    classes = CLASSES.of(op)
    found = [[classes[d] for d in dims] for dims in operand_dims(op)]
    if is_scatter(op):
        found.append([classes[d] for d in KernelScatter.walks.of(op) if d >= 0])
    return found


def destination_of(init: ir.Value) -> ir.Value | None:
    """The kernel argument that a generic's init is, or that a fill of the init overwrites."""
    if isinstance(init.owner, ir.Block):
        return init
    return destination_of(init.owner.operands[1]) if is_fill(init.owner) else None


def body_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops of a generic's body, its yield last; a scatter has none."""
    if is_scatter(op):
        return
    for inner in op.regions[0].blocks[0].operations:
        yield inner.operation


def shape_attributes(sizes: Sequence[Number], strides: Sequence[Number]) -> dict[str, ir.Attribute]:
    """The attribute for an argument's sizes and strides in terms of the kernel's parameters; none if all are static."""
    if not any(isinstance(n, Size) for n in (*sizes, *strides)):
        return {}
    return SHAPE.entry([list(sizes), list(strides)])


def count_tiles(loop: scf.ForallOp, counts: Sequence[Number], work: Number) -> None:
    """Annotates a loop over tiles with the number of scalar operations of all tiles, and with the number of tiles along
    each dim if that is symbolic, since the loop's bounds do not tell it then."""
    WORK.put(loop, work)
    if any(isinstance(n, Size) for n in counts):
        TILES_ALONG.put(loop, list(counts))


def argument_shape(argument: ir.Value, attributes: ir.DictAttr) -> tuple[list[Number], list[Number]]:
    """The sizes and strides, in elements, of an argument of a kernel, in terms of its parameters."""
    bound = SHAPE.find_in(attributes)
    if bound is not None:
        sizes, strides = bound
        return sizes, strides
    shape = list(ir.RankedTensorType(argument.type).shape)
    layout = BUFFER_LAYOUT.find_in(attributes)
    if layout is not None:
        return shape, list(ir.StridedLayoutAttr(layout).strides)
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return shape, strides[::-1]


def argument_shapes(function: func.FuncOp) -> dict[ir.Value, tuple[list[Number], list[Number]]]:
    """The sizes and strides of each tensor that a kernel is passed."""
    arguments = function.regions[0].blocks[0].arguments
    return {
        argument: argument_shape(argument, attributes)
        for argument, attributes in zip(arguments, argument_attributes(function), strict=True)
        if isinstance(argument.type, ir.RankedTensorType)
    }
