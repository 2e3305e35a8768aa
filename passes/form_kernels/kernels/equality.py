"""Tells which kernels are the same function, and which nodes of a kernel compute the same tensor."""

from __future__ import annotations

from collections.abc import Mapping

from cuesta.dialects.product import PRECISION
from cuesta.passes.form_kernels.kernels.kernel import Class, Kernel, KernelNode, Operand
from cuesta.sizes import Size


def kernel_key(kernel: Kernel) -> tuple[object, ...]:
    """Equal for kernels that are the same function of their arguments."""
    number = {c: i for i, c in enumerate(kernel.order)}
    arguments = [*kernel.inputs, *kernel.gathered, *kernel.outputs, *kernel.inner]
    slots = {id(o): i for i, o in enumerate(arguments)}
    gathered = {o.value: i for i, o in enumerate(kernel.gathered)}
    parameter = {size: f"p{i}" for i, size in enumerate(kernel.parameters)}
    tensors = tuple(
        (
            o.spelling,
            tuple(number.get(c, c) for c in o.classes),
            tuple(parameter[n] if isinstance(n, Size) else n for n in (*o.sizes, *o.strides)),
            tuple(o.positions or ()),
        )
        for o in arguments
    )
    nodes = tuple(
        (
            kn.tail,
            tuple(slots[id(r)] for r in kn.reads),
            tuple(slots[id(r)] for r in kn.results),
            tuple(gathered[v] for v in kn.node.gathers),
            tuple(parameter[n] for n in kn.node.computed_with),
            *_function(kernel, kn, number),
        )
        for kn in kernel.nodes
    )
    counts = (len(kernel.inputs), len(kernel.gathered), len(kernel.outputs))
    shared = tuple((slots[o], slots[id(first)]) for o, first in kernel.shared.items())
    return (counts, tuple(number[c] for c in kernel.parallel), tensors, shared, nodes)


def _function(kernel: Kernel, kn: KernelNode, number: Mapping[Class, int]) -> tuple[object, ...]:
    """Equal for nodes of kernels that are the same function of what they read; `number` numbers the classes."""
    loop_of = kernel.loop_of[kn.node.index]
    return (
        tuple(number[c] for c in kn.loops),
        tuple(kn.node.parallel[loop_of[c]] for c in kn.loops),
        kn.node.initial_numbers,
        kn.node.body_key,
        tuple(loop_of[c] for c in kn.loops) if kn.node.uses_index else (),
        _product_key(kn, {loop_of[c]: number[c] for c in kn.loops}),
    )


def _product_key(kn: KernelNode, number: Mapping[int, int]) -> tuple[object, ...] | None:
    """The properties of a matrix product that its body does not show; `number` numbers its loops."""
    if kn.node.product is None:
        return None
    roles = tuple(number[loop] for loop in kn.node.product)
    return roles, kn.node.tile, PRECISION.find(kn.node.op), kn.node.factor


def join_factors(kernel: Kernel) -> None:
    """Where two products of a kernel have left factors that it computes, drops what computes for the one what another
    node computes for the other: each product brought ops of its own."""
    if sum(kn.node.factor is not None for kn in kernel.nodes) < 2:
        return
    outputs, number = {id(o) for o in kernel.outputs}, {c: c for c in kernel.order}
    same: dict[int, Operand] = {}
    found: dict[tuple[object, ...], KernelNode] = {}
    for kn in [*kernel.nodes]:
        kn.reads = [same.get(id(o), o) for o in kn.reads]
        if any(id(o) in outputs for o in kn.results):
            continue
        written = [(o.spelling, *o.classes) for o in kn.results]
        given = (*map(_told, kn.reads), *written, kn.node.gathers, kn.node.computed_with)
        first = found.setdefault((_function(kernel, kn, number), *given), kn)
        if first is not kn:
            same |= zip(map(id, kn.results), first.results, strict=True)
            kernel.nodes.remove(kn)
    read = {id(o) for kn in kernel.nodes for o in kn.reads}
    kernel.inner = [o for o in kernel.inner if id(o) not in same]
    kernel.inputs = [o for o in kernel.inputs if id(o) in read]


def _told(operand: Operand) -> object:
    """Equal for operands that are the same elements, walked alike."""
    if operand.layout is None:
        return id(operand)
    return operand.layout, operand.spelling, *operand.classes
