"""Provides what every lowering rule builds with: accesses through views, and `linalg.generic`.

Tensors inside generics have no dims of size 1, so that maps are projected permutations, and fusion treats a mean with
`keepdim` like one without. Each value of the graph thus has a full form, in its original shape, and a squeezed form,
without dims of size 1; a `cuesta.reshape`, which costs nothing, converts one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import arith, ir, linalg
from cuesta.dialects import types
from cuesta.dialects.affine_maps import projection, squeeze
from cuesta.dialects.cuesta.shape import Constant, Expand, Extent, Iota, Permute, Reshape
from cuesta.dialects.named_linalg import fill
from cuesta.dialects.scalar import Scalar, load_storage, scalar_for, to_storage
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, PARALLEL, REDUCTION
from cuesta.sizes import Number, Size, parse

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Access:
    """How an op reads a value: dim i of the squeezed `source` is dim `dims[i]` of the value.

    A constant or a range has no source: each element is `number`, or `start + step * index` along `dims[0]`.
    """

    source: Value | None
    dims: tuple[int, ...]
    spelling: str
    number: float | Size | None = None
    start: float = 0
    step: float = 0


@dataclass
class LinalgBuilder:
    """The state of one lowering: the lowered forms of each value of the graph."""

    full: dict[Value, Value] = field(default_factory=dict)
    squeezed: dict[Value, Value] = field(default_factory=dict)
    #: Whether indices are checked to be within the tensor that they index.
    checks: bool = True

    # -- values -------------------------------------------------------------------------------
    def full_form(self, value: Value) -> Value:
        """The lowered value in its own shape."""
        if value not in self.full:
            if value not in self.squeezed:
                self._materialise(value)
            self.full[value] = reshaped(self.squeezed[value], shape_of(value))
        return self.full[value]

    def squeezed_form(self, value: Value) -> Value:
        """The lowered value without dims of size 1."""
        if value not in self.squeezed:
            if value not in self.full:
                self._materialise(value)
            if value not in self.squeezed:
                self.squeezed[value] = reshaped(self.full[value], squeeze(shape_of(value)))
        return self.squeezed[value]

    def _materialise(self, value: Value) -> None:
        # Constants and ranges are computed inside the ops that use them, until an op needs them in memory.
        access = self.access(value)
        sizes = shape_of(value)
        loops = [d for d, s in enumerate(sizes) if s != 1]
        self.squeezed[value] = self.generic(
            [self.on_loops(access, loops)], [sizes[d] for d in loops], access.spelling, lambda s, x: x
        )

    def access(self, value: Value) -> Access:
        """The access of `value`, which looks through views that only permute, broadcast, or add and drop unit dims."""
        sizes = shape_of(value)
        dims: list[int | None] = list(range(len(sizes)))  # dim of `value` → dim of the value asked for
        spelling = spelling_of(value)
        while True:
            owner = value.owner
            name = "" if isinstance(owner, ir.Block) else owner.name
            if name == Permute.OPERATION_NAME:
                order = Permute.dims.of(owner)
                inner: list[int | None] = [None] * len(order)
                for outer, d in enumerate(order):
                    inner[d] = dims[outer]
                dims = inner
            elif name == Expand.OPERATION_NAME:
                source, target = shape_of(owner.operands[0]), shape_of(value)
                kept = dims[len(target) - len(source) :]
                dims = [d if s == t else None for s, t, d in zip(source, target[-len(source) :], kept, strict=False)]
                if not source:
                    dims = []
            elif name == Reshape.OPERATION_NAME and squeeze(shape_of(value)) == squeeze(shape_of(owner.operands[0])):
                rest = iter([d for d, s in zip(dims, shape_of(value), strict=True) if s != 1])
                dims = [next(rest) if s != 1 else None for s in shape_of(owner.operands[0])]
            elif name == Constant.OPERATION_NAME:
                return Access(None, (), spelling, number=Constant.value.of(owner))
            elif name == Extent.OPERATION_NAME:
                return Access(None, (), spelling, number=parse(Extent.at.of(owner)))
            elif name == Iota.OPERATION_NAME and shape_of(value)[0] != 1 and dims[0] is not None:
                start, step = Iota.start.of(owner), Iota.step.of(owner)
                return Access(None, (dims[0],), spelling, start=start, step=step)
            elif name == Iota.OPERATION_NAME:
                return Access(None, (), spelling, number=Iota.start.of(owner))
            else:
                kept_dims = tuple(d for d, s in zip(dims, shape_of(value), strict=True) if s != 1)
                assert None not in kept_dims
                return Access(self.squeezed_form(value), kept_dims, spelling)  # type: ignore[arg-type]
            value = owner.operands[0]

    @staticmethod
    def on_loops(access: Access, loops: Sequence[int]) -> Access:
        """The access with dims renumbered to positions within `loops` (dims of the op's own shape)."""
        position = {d: i for i, d in enumerate(loops)}
        return Access(
            access.source,
            tuple(position[d] for d in access.dims),
            access.spelling,
            access.number,
            access.start,
            access.step,
        )

    def broadcast_access(self, value: Value, sizes: Sequence[Number], loops: Sequence[int]) -> Access:
        """The access of an operand that is broadcast to `sizes`, in loops over the dims `loops` of `sizes`."""
        access = self.access(value)
        shift = len(sizes) - len(shape_of(value))
        shifted = Access(
            access.source,
            tuple(d + shift for d in access.dims),
            access.spelling,
            access.number,
            access.start,
            access.step,
        )
        return self.on_loops(shifted, loops)

    def covering_access(self, value: Value, loops: Sequence[int]) -> Access:
        """The access of `value` over all of `loops`, for a reduction, which must find every loop's bound among its
        operands: a broadcast value or a constant is materialised first."""
        access = self.on_loops(self.access(value), loops)
        if access.source is not None and len(access.dims) == len(loops):
            return access
        sizes = shape_of(value)
        whole = self.generic([access], [sizes[d] for d in loops], access.spelling, lambda s, x: x)
        return Access(whole, tuple(range(len(loops))), access.spelling)

    # -- linalg -------------------------------------------------------------------------------
    def generic(
        self,
        accesses: Sequence[Access],
        sizes: Sequence[Number],
        spelling: str,
        body: Callable[..., Value],
        *,
        reduced: Sequence[int] = (),
        identity: Callable[[ir.Type], float] | None = None,
    ) -> Value:
        """Builds one generic over loops of `sizes`; result dims are the loops that are not `reduced`.

        `body(s, *operands)` gives the element, in the computing type; a reduction's body takes the accumulator first.
        The element type of the result is the storage type of `spelling`.
        """
        out_dims = [d for d in range(len(sizes)) if d not in set(reduced)]
        (result,) = self.generics(
            accesses,
            sizes,
            [(out_dims, spelling, identity)],
            lambda s, outs, ins: [body(s, *(outs if identity else ()), *ins)],
            reduced=reduced,
        )
        return result

    def generics(
        self,
        accesses: Sequence[Access],
        sizes: Sequence[Number],
        outputs: Sequence[tuple[Sequence[int], str, Callable[[ir.Type], float] | None]],
        body: Callable[[Scalar, list[Value], list[Value]], list[Value]],
        *,
        reduced: Sequence[int] = (),
    ) -> list[Value]:
        """Builds a generic of several results, each (its loop dims in order, element type, identity or None)."""
        sources = [a for a in accesses if a.source is not None]
        inits, result_types = [], []
        for dims, spelling, identity in outputs:
            storage = types.element(types.storage(spelling))
            empty = types.empty([sizes[d] for d in dims], types.storage(spelling))
            if identity is not None:
                number = Scalar().const(storage, identity(types.element(spelling)))
                empty = fill(number, empty)
            inits.append(empty)
            result_types.append(empty.type)
        maps = [projection(len(sizes), a.dims) for a in sources]
        maps += [projection(len(sizes), dims) for dims, _, _ in outputs]
        kinds = [REDUCTION if d in set(reduced) else PARALLEL for d in range(len(sizes))]
        iterators = ITERATOR_TYPES.write(kinds)
        op = linalg.GenericOp(result_types, [a.source for a in sources], inits, ir.ArrayAttr.get(maps), iterators)
        elements = [types.element(types.storage(a.spelling)) for a in sources] + [
            types.element(types.storage(spelling)) for _, spelling, _ in outputs
        ]
        block = op.regions[0].blocks.append(*elements)
        with ir.InsertionPoint(block):
            arguments = iter(block.arguments)
            ins = [self._element(a, next(arguments) if a.source is not None else None) for a in accesses]
            outs = [
                _accumulated(next(arguments), spelling) if identity else next(arguments)
                for _, spelling, identity in outputs
            ]
            s = scalar_for(accesses[0].spelling if accesses else outputs[0][1])
            elements_out = body(s, outs, ins)
            linalg.YieldOp([to_storage(e, spec[1]) for e, spec in zip(elements_out, outputs, strict=True)])
        return list(op.results)

    def _element(self, access: Access, argument: Value | None) -> Value:
        if argument is not None:
            return load_storage(argument, access.spelling)
        kind = types.element(access.spelling.replace("ui8", "i8"))
        if access.number is not None:
            return Scalar().const(kind, access.number)
        whole = arith.index_cast(ir.IntegerType.get_signless(64), linalg.IndexOp(access.dims[0]).result)
        if isinstance(kind, ir.FloatType):
            # In f64, so that start + i * step rounds once.
            f64 = ir.F64Type.get()
            s = Scalar()
            value = s.add(s.const(f64, access.start), s.mul(arith.sitofp(f64, whole), s.const(f64, access.step)))
            return s.convert(value, kind)
        s = Scalar()
        value = s.add(s.const(whole, int(access.start)), s.mul(whole, s.const(whole, int(access.step))))
        return s.convert(value, kind)


def _accumulated(value: Value, spelling: str) -> Value:
    """The accumulator of a reduction. A bool that the reduction wrote is 0 or 1, so it is truncated, not compared with
    0: LLVM does not vectorise that comparison."""
    return arith.trunci(types.element("i1"), value) if spelling == "i1" else value


def reshaped(value: Value, sizes: Sequence[Number]) -> Value:
    if shape_of(value) == tuple(sizes):
        return value
    return Reshape(value, types.tensor(list(sizes), spelling_of(value))).result
