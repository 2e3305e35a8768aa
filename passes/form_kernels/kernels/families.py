"""Kernels that differ in one size become one, which is passed it.

    @relu   : 256x288 → 256x288
    @relu_2 : 256x320 → 256x320   →   @relu : 256x? → 256x?, launched with 288, 320, 352, …
    @relu_3 : 256x352 → 256x352
    …

Every layer of a DenseNet has another number of channels, and machine code for each would take most of its compile
time. Loops over a size that is passed are as fast where it is long and fills vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import int_array
from cuesta.dialects.product import Panels, is_in_panels
from cuesta.passes.analysis.layout import dense_strides
from cuesta.passes.form_kernels.kernels.kernel import Class, Kernel, KernelNode, Operand, kernel_key
from cuesta.passes.form_kernels.kernels.outline import emit_kernel
from cuesta.sizes import Number, Size, at, symbol

#: Kernels of which one is made, at least: for fewer it is not worth what a number tells LLVM.
_FEWEST = 4
#: The size that is passed is this at least, and a multiple of a vector's f32 elements.
_LEAST, _LANES = 64, 16
#: What it is called until the kernel is written.
_SIZE = "size"


@dataclass(frozen=True)
class Written:
    """A kernel that is to be written, under a name, and where it is launched."""

    kernel: Kernel
    name: str
    launches: list[ir.Operation]


@dataclass(frozen=True)
class Member:
    """A kernel of a family: what is written for all of them, but for the depth of its product, and its own size."""

    general: Kernel
    size: int
    #: of K at a time, where it is a product
    depth: int


#: Members by their names, in order.
Family: TypeAlias = dict[str, Member]


def write_kernels(kernels: Sequence[Written], shared: bool) -> None:
    """Writes kernels at the current insertion point; where they may be `shared`, one for those that differ in one
    size."""
    families = _families(kernels) if shared else []
    family_of = {name: family for family in families for name in family}
    for written in kernels:
        family = family_of.get(written.name)
        if family is None:
            emit_kernel(written.kernel, written.name)
            continue
        first = next(iter(family))
        general = family[first].general
        if written.name == first:
            # Blocks of K are as deep as each had them: as few as can be of at most the deepest, and about equal.
            emit_kernel(_with_depth(general, max(member.depth for member in family.values())), first)
        values = {_SIZE: family[written.name].size}
        for launch in written.launches:
            launch.attributes["kernel"] = ir.SymbolRefAttr.get(["kernels", first])
            launch.attributes["parameters"] = int_array(at(n, values) for n in general.parameters)


def _families(kernels: Sequence[Written]) -> list[Family]:
    """Families, the largest first; each kernel is in one at most."""
    alike: dict[object, Family] = {}
    for written in kernels:
        for c in _variable(written.kernel):
            member = _member(written.kernel, c)
            alike.setdefault(kernel_key(member.general), {}).setdefault(written.name, member)
    found: list[Family] = []
    taken: set[str] = set()
    for members in sorted(alike.values(), key=len, reverse=True):
        left = {name: member for name, member in members.items() if name not in taken}
        if len(left) >= _FEWEST:
            found.append(left)
            taken |= left.keys()
    return found


def _variable(kernel: Kernel) -> list[Class]:
    """The classes whose size a kernel may be passed: tiles cut them, or a product sums along them what it is passed, so
    that no memory within a tile has that size."""
    if kernel.parameters or kernel.gathered or any(kn.node.base is not None for kn in kernel.nodes):
        return []
    products = [kn for kn in kernel.nodes if kn.node.product is not None]
    classes = [_summed(kernel, kn) for kn in products if is_in_panels(kn.node.tile)] if products else kernel.parallel
    inside = {c for o in kernel.inner for c in o.classes} if products else set()
    return [c for c in classes if c not in inside and _is_long(kernel.sizes[c])]


def _summed(kernel: Kernel, kn: KernelNode) -> Class:
    """The class that a product sums along."""
    assert kn.node.product is not None
    return next(c for c in kn.loops if kernel.loop_of[kn.node.index][c] == kn.node.product[2])


def _is_long(size: Number) -> bool:
    return isinstance(size, int) and size >= _LEAST and size % _LANES == 0


def _member(kernel: Kernel, c: Class) -> Member:
    """The kernel, passed the size of a class. What lies without gaps does so whatever that is."""
    own, size = kernel.sizes[c], symbol(_SIZE)
    assert isinstance(own, int)
    new = {id(o): _resized(o, c, size) for o in kernel.tensors}

    def all_of(operands: Sequence[Operand]) -> list[Operand]:
        return [new[id(o)] for o in operands]

    sizes: Mapping[Class, Number] = kernel.sizes | {c: size}
    general = replace(
        kernel,
        nodes=[replace(kn, reads=all_of(kn.reads), results=all_of(kn.results)) for kn in kernel.nodes],
        sizes=dict(sizes),
        inputs=all_of(kernel.inputs),
        outputs=all_of(kernel.outputs),
        inner=all_of(kernel.inner),
    )
    depths = [Panels.parse(kn.node.tile).k for kn in kernel.nodes if kn.node.tile is not None]
    return Member(_with_depth(general, 0), own, max(depths, default=0))


def _resized(operand: Operand, c: Class, size: Size) -> Operand:
    sizes: list[Number] = [size if own == c else n for own, n in zip(operand.classes, operand.sizes, strict=True)]
    strides = list(dense_strides(sizes, range(len(sizes)))) if operand.contiguous else operand.strides
    return replace(operand, sizes=sizes, strides=strides)


def _with_depth(kernel: Kernel, depth: int) -> Kernel:
    """The kernel with at most so much of K at a time in its products."""

    def deep(kn: KernelNode) -> KernelNode:
        if kn.node.tile is None:
            return kn
        return replace(kn, node=replace(kn.node, tile=str(replace(Panels.parse(kn.node.tile), k=depth))))

    return replace(kernel, nodes=[deep(kn) for kn in kernel.nodes])
