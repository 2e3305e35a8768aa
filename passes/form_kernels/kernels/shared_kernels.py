"""Merges kernels that differ in one size into one kernel, which takes the size as a parameter.

    @relu   : 256x288 → 256x288
    @relu_2 : 256x320 → 256x320   →   @relu : 256x? → 256x?, launched with 288, 320, 352, …
    @relu_3 : 256x352 → 256x352
    …

Every layer of a DenseNet has another number of channels, and machine code for each would take most of its compile
time. Loops over a size that is a parameter are as fast if the size is long and fills vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.host import Launch
from cuesta.dialects.product import Panels, is_in_panels
from cuesta.passes.analysis.layout import dense_strides
from cuesta.passes.form_kernels.kernels.equality import kernel_key
from cuesta.passes.form_kernels.kernels.kernel import Class, Kernel, KernelNode, Operand
from cuesta.passes.form_kernels.kernels.outline import emit_kernel
from cuesta.sizes import Number, Size, at, symbol

#: Fewest kernels that are merged: for fewer, constant sizes, which help LLVM optimise, are worth more.
_FEWEST = 4
#: A size may become a parameter if it is at least `_LEAST` and a multiple of `_LANES`, a vector's f32 elements.
_LEAST, _LANES = 64, 16
#: The name of the size until the kernel is written.
_SIZE = "size"


@dataclass(frozen=True)
class Written:
    """A kernel that is to be written under `name`, and its launches."""

    kernel: Kernel
    name: str
    launches: list[ir.Operation]


@dataclass(frozen=True)
class Member:
    """A kernel that shares code: `general` is the shared kernel without its product's depth, `size` its own size."""

    general: Kernel
    size: int
    #: how much of K a product takes at a time; 0 without a product
    depth: int


#: The kernels that share one code: name → member, in order.
SharedKernel: TypeAlias = dict[str, Member]


def write_kernels(kernels: Sequence[Written], shared: bool) -> None:
    """Writes kernels at the current insertion point; if they may be `shared`, kernels that differ in one size are
    written as one."""
    found = _shared_kernels(kernels) if shared else []
    code_of = {name: members for members in found for name in members}
    for written in kernels:
        members = code_of.get(written.name)
        if members is None:
            emit_kernel(written.kernel, written.name)
            continue
        first = next(iter(members))
        general = members[first].general
        if written.name == first:
            # With the deepest member's limit, each size still gets its own depth: K is split into the fewest blocks
            # within the limit, of about equal depth.
            emit_kernel(_with_depth(general, max(member.depth for member in members.values())), first)
        values = {_SIZE: members[written.name].size}
        for launch in written.launches:
            Launch.kernel.put(launch, first)
            Launch.parameters.put(launch, [at(n, values) for n in general.parameters])


def _shared_kernels(kernels: Sequence[Written]) -> list[SharedKernel]:
    """The kernels that can share code, the largest group first; each kernel is in at most one."""
    alike: dict[object, SharedKernel] = {}
    for written in kernels:
        for c in _variable(written.kernel):
            member = _member(written.kernel, c)
            alike.setdefault(kernel_key(member.general), {}).setdefault(written.name, member)
    found: list[SharedKernel] = []
    taken: set[str] = set()
    for members in sorted(alike.values(), key=len, reverse=True):
        left = {name: member for name, member in members.items() if name not in taken}
        if len(left) >= _FEWEST:
            found.append(left)
            taken |= left.keys()
    return found


def _variable(kernel: Kernel) -> list[Class]:
    """The classes whose size may become a parameter: classes that tiles cut, or along which a product sums its
    operands. No memory within a tile may have that size."""
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
    """The kernel with the size of class `c` as a parameter. Contiguous tensors stay contiguous for every size."""
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
    """The kernel with products that take at most `depth` of K at a time."""

    def deep(kn: KernelNode) -> KernelNode:
        if kn.node.tile is None:
            return kn
        return replace(kn, node=replace(kn.node, tile=str(replace(Panels.parse(kn.node.tile), k=depth))))

    return replace(kernel, nodes=[deep(kn) for kn in kernel.nodes])
