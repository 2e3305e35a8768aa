"""Builds ops of the cuesta dialect from values, and infers the types of their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import aten, types
from cuesta.dialects.cuesta import complex_numbers, pointwise, reduction, shape
from cuesta.dialects.cuesta.complex_numbers import PARTS, WHOLES
from cuesta.dialects.fields import float_attr, int_array, int_attr
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.errors import Undecided, WrongElementType
from cuesta.sizes import Number, Size

Value: TypeAlias = ir.Value
Shape = Sequence[Number]


class GraphBuilder:
    """Stateless: every method builds at the current insertion point and location."""

    # -- pointwise ----------------------------------------------------------------------------
    def constant(self, number: complex | Size, spelling: str, sizes: Shape = ()) -> Value:
        """A tensor of `sizes` filled with `number`."""
        if spelling in PARTS:
            real, imag = (number, 0) if isinstance(number, Size) else (complex(number).real, complex(number).imag)
            return self.complex(
                self.constant(real, PARTS[spelling], sizes), self.constant(imag, PARTS[spelling], sizes)
            )
        assert not isinstance(number, complex)
        if isinstance(number, Size):
            return shape.Extent(int_attr(number), types.tensor(list(sizes), spelling)).result
        if types.is_float(spelling):
            attribute: ir.Attribute = float_attr(number)
        else:
            attribute = int_attr(_as_int64(int(number != 0 if spelling == "i1" else number)))
        return shape.Constant(attribute, types.tensor(list(sizes), spelling)).result

    def convert(self, x: Value, spelling: str) -> Value:
        """x converted to the element type `spelling`; x itself if it has that type."""
        source = spelling_of(x)
        if source == spelling:
            return x
        if spelling in PARTS:
            return self.convert_parts(x, PARTS[spelling])
        if source in PARTS:
            real, imag = (self.convert(part, spelling) for part in self.parts(x))
            return self.pointwise("logical_or", real, imag) if spelling == "i1" else real
        return pointwise.Convert(x, types.tensor(shape_of(x), spelling)).result

    def pointwise(self, name: str, *operands: Value, result: str | None = None, **params: float) -> Value:
        """The op of the row `name`. Raises WrongElementType if the operands have no type that the op computes in."""
        sizes = _broadcast(name, operands)
        row = pointwise.BY_NAME[name]
        if not row.takes(taken := spelling_of(operands[0])):
            raise WrongElementType(f"{name} computes on {row.promotion}s, not on {taken}")
        spelling = result or ("i1" if row.promotion == "compare" else taken)
        attributes = [float_attr(params[p]) for p in row.params]
        return pointwise.OPS[name](*operands, *attributes, types.tensor(sizes, spelling)).result

    def with_number(self, name: str, x: Value, number: float | Size) -> Value:
        """`x op number`, in x's type."""
        return self.pointwise(name, x, self.constant(number, spelling_of(x)))

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        sizes = _broadcast("where", (condition, x, y))
        return pointwise.Where(condition, x, y, types.tensor(sizes, spelling_of(x))).result

    # -- complex numbers ----------------------------------------------------------------------
    def complex(self, real: Value, imag: Value) -> Value:
        """Complex numbers from their parts, which are floats of one type and broadcast."""
        sizes = _broadcast("complex", (real, imag))
        return complex_numbers.Complex(real, imag, types.tensor(sizes, WHOLES[spelling_of(real)])).result

    def parts(self, x: Value) -> tuple[Value, Value]:
        """The real and imaginary parts, in x's shape; for a real x, x itself and zeros."""
        spelling = spelling_of(x)
        if spelling not in PARTS:
            return x, self.constant(0, spelling, shape_of(x))
        if not isinstance(x.owner, ir.Block) and complex_numbers.Complex.matches(x.owner):
            real, imag = (self.expand(part, shape_of(x)) for part in x.owner.operands)
            return real, imag
        kind = types.tensor(shape_of(x), PARTS[spelling])
        return complex_numbers.Real(x, kind).result, complex_numbers.Imag(x, kind).result

    def convert_parts(self, x: Value, part: str) -> Value:
        """Complex numbers with parts of type `part`; x may be real."""
        return self.complex(*(self.convert(value, part) for value in self.parts(x)))

    def view_as_real(self, x: Value) -> Value:
        """The parts in a last dim of 2."""
        return complex_numbers.ViewAsReal(x, types.tensor((*shape_of(x), 2), PARTS[spelling_of(x)])).result

    def view_as_complex(self, x: Value) -> Value:
        """The inverse of `view_as_real`: the last dim, of size 2, holds the parts."""
        return complex_numbers.ViewAsComplex(x, types.tensor(shape_of(x)[:-1], WHOLES[spelling_of(x)])).result

    # -- reductions ---------------------------------------------------------------------------
    def reduce(self, name: str, x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
        """The reduction of the row `name` over `dims` (non-negative); x itself if `dims` is empty."""
        if not dims:
            return x
        chosen = set(dims)
        sizes = [1 if d in chosen else s for d, s in enumerate(shape_of(x)) if keepdim or d not in chosen]
        result = types.tensor(sizes, spelling_of(x))
        return reduction.OPS[name](x, int_array(sorted(chosen)), int_attr(keepdim), result).result

    def mean(self, x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
        count = math.prod(shape_of(x)[d] for d in dims)
        total = self.reduce("sum", x, dims, keepdim)
        return self.pointwise("div", total, self.constant(count, spelling_of(x)))

    # -- shape --------------------------------------------------------------------------------
    def reshape(self, x: Value, sizes: Shape) -> Value:
        if list(shape_of(x)) == list(sizes):
            return x
        return shape.Reshape(x, types.tensor(list(sizes), spelling_of(x))).result

    def permute(self, x: Value, dims: Sequence[int]) -> Value:
        if list(dims) == list(range(len(dims))):
            return x
        sizes = [shape_of(x)[d] for d in dims]
        return shape.Permute(x, int_array(dims), types.tensor(sizes, spelling_of(x))).result

    def expand(self, x: Value, sizes: Shape) -> Value:
        if list(shape_of(x)) == list(sizes):
            return x
        return shape.Expand(x, types.tensor(list(sizes), spelling_of(x))).result

    def slice(self, x: Value, dim: int, start: Number, size: Number, step: int = 1) -> Value:
        """`size` elements of x along `dim`, from `start` on."""
        sizes: list[Number] = list(shape_of(x))
        if start == 0 and step == 1 and size == sizes[dim]:
            return x
        starts: list[Number] = [0] * len(sizes)
        steps = [1] * len(sizes)
        starts[dim], steps[dim], sizes[dim] = start, step, size
        return shape.Slice(x, int_array(starts), int_array(steps), types.tensor(sizes, spelling_of(x))).result

    def unfold(self, x: Value, dim: int, count: Number, width: int, step: int = 1) -> Value:
        """`count` windows of `width` elements along `dim`, `step` apart, their elements in a new last dim."""
        sizes = list(shape_of(x))
        sizes[dim] = count
        return shape.Unfold(x, int_attr(dim), int_attr(step), types.tensor([*sizes, width], spelling_of(x))).result

    def cat(self, xs: Sequence[Value], dim: int) -> Value:
        """Concatenates the operands along `dim` by a chain of binary ops. Operands of size 0 there are left out."""
        joined, *others = [x for x in xs if shape_of(x)[dim] != 0] or xs[:1]
        for x in others:
            sizes = list(shape_of(joined))
            sizes[dim] += shape_of(x)[dim]
            joined = shape.Cat(joined, x, int_attr(dim), types.tensor(sizes, spelling_of(x))).result
        return joined

    def pad(self, x: Value, dim: int, before: Number, after: Number, number: float = 0) -> Value:
        """Pads x along `dim` with `before` and `after` elements of `number`; negative amounts cut elements off."""
        sizes: list[Number] = list(shape_of(x))
        cut_before, cut_after = (-n if n < 0 else 0 for n in (before, after))
        if cut_before or cut_after:
            x = self.slice(x, dim, cut_before, sizes[dim] - cut_before - cut_after)
        parts = []
        for amount, is_before in ((before, True), (after, False)):
            if amount > 0:
                sizes[dim] = amount
                parts.append((is_before, self.constant(number, spelling_of(x), sizes)))
        front = [v for is_before, v in parts if is_before]
        back = [v for is_before, v in parts if not is_before]
        return self.cat([*front, x, *back], dim)

    def ramp(self, count: Number, step: int = 1, start: int = 0, spelling: str = "i64") -> Value:
        """The `count` integers start, start + step, …, which the type `spelling` must be able to hold."""
        return shape.Iota(int_attr(start), int_attr(step), types.tensor([count], spelling)).result

    def along(self, sizes: Shape, dim: int, step: Number = 1, spelling: str = "i64") -> Value:
        """For each element of a tensor of `sizes`, `step` times its index along `dim`. The integers have a shape that
        broadcasts to `sizes`."""
        if isinstance(step, Size):  # Iota takes no symbolic step
            return self.with_number("mul", self.along(sizes, dim, spelling=spelling), step)
        ramp = self.ramp(sizes[dim], step, spelling=spelling)
        return self.reshape(ramp, [n if d == dim else 1 for d, n in enumerate(sizes)])

    # -- calls into ATen ----------------------------------------------------------------------
    def aten(
        self,
        overload: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        results: Sequence[tuple[Shape, str, Shape]],
        reason: str,
        operand_strides: Sequence[Shape | None] | None = None,
    ) -> list[Value]:
        """Calls `overload`; ir.Values among the arguments become operands.

        `results` gives shape, element type and strides of each result. `operand_strides` gives the
        strides that the overload saw when it was traced (None: any strides will do).
        """
        operands: list[Value] = []

        def name_operands(item: Any) -> Any:
            if isinstance(item, ir.Value):
                operands.append(item)
                return aten.OperandRef(len(operands) - 1)
            if isinstance(item, (list, tuple)):
                return [name_operands(i) for i in item]
            return item

        named = [name_operands(a) for a in args]
        named_kwargs = {k: name_operands(v) for k, v in kwargs.items()}
        text = aten.encode_call(named, named_kwargs)
        op = aten.Call.build(
            operands,
            [types.tensor(list(sizes), spelling) for sizes, spelling, _ in results],
            overload=overload,
            args=text,
            reason=reason,
            result_strides=[strides for _, _, strides in results],
            operand_strides=operand_strides,
        )
        return list(op.results)


def _broadcast(name: str, operands: Sequence[Value]) -> tuple[Number, ...]:
    """The operands' broadcast shape. If they do not broadcast, raises Undecided for symbolic sizes, else ValueError."""
    shapes = [shape_of(x) for x in operands]
    sizes = pointwise.broadcast_shape(*shapes)
    if sizes is None:
        symbolic = any(isinstance(n, Size) for shape in shapes for n in shape)
        kind = Undecided if symbolic else ValueError
        raise kind(f"{name}: shapes {', '.join(str(list(shape)) for shape in shapes)} do not broadcast")
    return sizes


def _as_int64(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
