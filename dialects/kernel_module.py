"""`module @kernels`, where kernels live once the host function has parted from them: names, and how to read one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuesta._mlir import func, ir, scf
from cuesta.dialects.affine_maps import dims_of
from cuesta.dialects.cuesta.dialect import int_array, int_attr, ints, numbers
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.sizes import Number, Size

#: Kernel k as a function over a range of its tiles, and what runs once after them.
TILES, TAIL = "__tiles", "__tail"

#: The version of a kernel's tiles for sizes that fill its vectors.
ALIGNED = "__aligned"
#: Attribute of a loop: what LLVM is told of it.
LOOP_ANNOTATION = "llvm.loop_annotation"
#: What computes its tiles that are cut off at the end of a size.
REST = "__rest"

#: Attribute of a kernel's argument whose sizes or strides depend on the call: both, in terms of the kernel's own
#: parameters p0, p1, …, which are its arguments behind the tensors.
SHAPE = "cuesta.bound"

#: Attributes of a launch: the other versions of its kernel, and of each but the last what is 0 where it is right.
OTHERWISE, UNLESS = "otherwise", "unless"
#: Attribute of a kernel: the number of blocks along each parallel class, 0 for what only a launch tells.
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
    """The kernels of which a host.launch runs the first that is right for its sizes."""
    others = launch.attributes.get(OTHERWISE, [])
    return [str(launch.attributes["kernel"].value[-1]), *(str(other.value[-1]) for other in others)]


def conditions(launch: ir.Operation) -> list[Number]:
    """What is 0, and never negative, where each of these kernels is right; of the last one 0."""
    rows = launch.attributes.get(UNLESS, [])
    return [*(sum(numbers(row)) for row in rows), 0]


def is_computed_with(parameter: ir.Value) -> bool:
    """Whether the body of a generic takes a parameter for a number."""
    return any(use.owner.operation.parent.name == "linalg.generic" for use in parameter.uses)


def sized(function: func.FuncOp) -> bool:
    """Whether a kernel binds its buffers to sizes that it is passed."""
    return any(op.operation.name == "memref.reinterpret_cast" for op in function.regions[0].blocks[0].operations)


def operand_classes(op: ir.Operation) -> list[list[int]]:
    """For each operand of a kernel's generic or scatter, the classes of its dims; those that nothing walks left out."""
    classes = ints(op.attributes["cuesta.classes"])
    found = [[classes[d] for d in dims_of(m.value)] for m in op.attributes["indexing_maps"]]
    if is_scatter(op):
        found.append([classes[d] for d in ints(op.attributes["walks"]) if d >= 0])
    return found


def destination_of(init: ir.Value) -> ir.Value | None:
    """The kernel argument that a generic's init stands for, through a fill."""
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
    """What says an argument's sizes and strides, in terms of the kernel's parameters; nothing where its type does."""
    if not any(isinstance(n, Size) for n in (*sizes, *strides)):
        return {}
    return {SHAPE: ir.ArrayAttr.get([int_array(sizes), int_array(strides)])}


def count_tiles(loop: scf.ForallOp, counts: Sequence[Number], work: Number) -> None:
    """Says of a loop over tiles how many scalar operations all of them are, and how many tiles there are along each of
    its dims where that depends on the call: its bounds do not tell then."""
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
