"""Names and reads `module @kernels`, which holds the kernels once they are separated from the host function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuesta._mlir import func, ir, scf
from cuesta.dialects.affine_maps import dims_of
from cuesta.dialects.fields import int_array, int_attr, ints, numbers
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.sizes import Number, Size

#: Suffixes: of a kernel's function over a range of its tiles, and of the function that runs once after all tiles.
TILES, TAIL = "__tiles", "__tail"

#: Suffix of the version of a kernel's tiles for sizes that are multiples of its vectors.
ALIGNED = "__aligned"
#: Attribute of a loop: hints for LLVM.
LOOP_ANNOTATION = "llvm.loop_annotation"
#: Suffix of the function for a kernel's partial tiles, which are cut off at the end of a size.
REST = "__rest"

#: Attribute of a kernel's argument with symbolic sizes or strides: both, in terms of the kernel's own parameters p0,
#: p1, …, which are the arguments after the tensors.
SHAPE = "cuesta.bound"

#: Attributes of a launch: the other versions of its kernel, and for each version but the last the sizes that must be 0
#: for it to be valid.
OTHERWISE, UNLESS = "otherwise", "unless"
#: Attribute of a kernel: the number of blocks along each parallel class, 0 if only a launch determines it.
COUNTS = "cuesta.counts"


def kernel_modules(module: ir.Module) -> list[ir.Module]:
    """The modules that hold kernels: those nested in `module`."""
    return [op for op in module.body.operations if op.operation.name == "builtin.module"]


def parameters(function: func.FuncOp) -> dict[str, ir.Value]:
    """The sizes and strides that a kernel is passed, by their names p0, p1, …"""
    indices = [a for a in function.regions[0].blocks[0].arguments if isinstance(a.type, ir.IndexType)]
    return {f"p{i}": value for i, value in enumerate(indices)}


def launch_parameters(launch: ir.Operation) -> list[Number]:
    """The sizes that a host.launch passes its kernel, for its parameters p0, p1, …"""
    return numbers(launch.attributes["parameters"]) if "parameters" in launch.attributes else []


def launched_kernels(launch: ir.Operation) -> list[str]:
    """The versions of a kernel of a host.launch, which runs the first version that is valid for its sizes."""
    others = launch.attributes.get(OTHERWISE, [])
    return [str(launch.attributes["kernel"].value[-1]), *(str(other.value[-1]) for other in others)]


def conditions(launch: ir.Operation) -> list[Number]:
    """For each of `launched_kernels`, a number that is 0 if the kernel is valid, else positive; 0 for the last."""
    rows = launch.attributes.get(UNLESS, [])
    return [*(sum(numbers(row)) for row in rows), 0]


def is_computed_with(parameter: ir.Value) -> bool:
    """Whether the body of a generic computes with a parameter."""
    return any(use.owner.operation.parent.name == "linalg.generic" for use in parameter.uses)


def sized(function: func.FuncOp) -> bool:
    """Whether a kernel's buffers have sizes that are passed to it."""
    return any(op.operation.name == "memref.reinterpret_cast" for op in function.regions[0].blocks[0].operations)


def operand_classes(op: ir.Operation) -> list[list[int]]:
    """For each operand of a kernel's generic or scatter, the classes of its dims, without dims that no loop walks."""
    classes = ints(op.attributes["cuesta.classes"])
    found = [[classes[d] for d in dims_of(m.value)] for m in op.attributes["indexing_maps"]]
    if is_scatter(op):
        found.append([classes[d] for d in ints(op.attributes["walks"]) if d >= 0])
    return found


def destination_of(init: ir.Value) -> ir.Value | None:
    """The kernel argument that a generic's init is, or that a fill of the init overwrites."""
    if isinstance(init.owner, ir.Block):
        return init
    return destination_of(init.owner.operands[1]) if init.owner.name == "linalg.fill" else None


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
    return {SHAPE: ir.ArrayAttr.get([int_array(sizes), int_array(strides)])}


def count_tiles(loop: scf.ForallOp, counts: Sequence[Number], work: Number) -> None:
    """Annotates a loop over tiles with the number of scalar operations of all tiles, and with the number of tiles along
    each dim if that is symbolic, since the loop's bounds do not tell it then."""
    loop.operation.attributes["cuesta.work"] = int_attr(work)
    if any(isinstance(n, Size) for n in counts):
        loop.operation.attributes["cuesta.tiles"] = int_array(counts)


def argument_shape(argument: ir.Value, attributes: ir.DictAttr) -> tuple[list[Number], list[Number]]:
    """The sizes and strides, in elements, of an argument of a kernel, in terms of its parameters."""
    if SHAPE in attributes:
        sizes, strides = (numbers(part) for part in attributes[SHAPE])
        return sizes, strides
    shape = list(ir.RankedTensorType(argument.type).shape)
    if "bufferization.buffer_layout" in attributes:
        return shape, list(ir.StridedLayoutAttr(attributes["bufferization.buffer_layout"]).strides)
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return shape, strides[::-1]


def argument_shapes(function: func.FuncOp) -> dict[ir.Value, tuple[list[Number], list[Number]]]:
    """The sizes and strides of each tensor that a kernel is passed."""
    arguments = function.regions[0].blocks[0].arguments
    entries = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else [{}] * len(arguments)
    return {
        argument: argument_shape(argument, attributes)
        for argument, attributes in zip(arguments, entries, strict=True)
        if isinstance(argument.type, ir.RankedTensorType)
    }
