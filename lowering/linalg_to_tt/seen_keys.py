"""Finds which keys a block of queries can see, from the index expressions of the mask that hides the others.

    %s = select (cmpi sge, %query, %key), %x, -inf                       keys up to the block's last query
    %s = select (and (…), (cmpi slt, %query - %key, 256)), %x, -inf      and from 255 before its first query on

The scores of all other keys are -inf for every query of the block, so the loop along the keys passes over them. In the
same way a gradient's factor is 0 where a mask hides it, or is the exponential of -inf. In between are keys that every
query of the block sees: there the comparisons hold, and need not be made.

    %s = select (cmpi eq, %document_of_query, %document_of_key), %x, -inf

Where the elements of tensors are compared, the program finds the first and the last key that its queries may see when
it runs (seen_by_tables.py).
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cuesta._mlir import arith, ir, linalg, math
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.upstream_fields import INDEX_DIM
from cuesta.lowering.linalg_to_tt.frame import Value

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import Node

#: A linear expression: class → the factor of the position along it, and _ONE → the constant term. None for any other
#: expression.
_Sum: TypeAlias = "dict[int, int] | None"
_ONE = -1

_Predicate = arith.CmpIPredicate
#: Predicate → the one that holds where it does not.
_OPPOSITE = {
    _Predicate.slt: _Predicate.sge,
    _Predicate.sge: _Predicate.slt,
    _Predicate.sle: _Predicate.sgt,
    _Predicate.sgt: _Predicate.sle,
    _Predicate.ne: _Predicate.eq,
}
#: Predicate → the one that holds where both sides are multiplied by -1.
_TURNED = {
    _Predicate.slt: _Predicate.sgt,
    _Predicate.sgt: _Predicate.slt,
    _Predicate.sle: _Predicate.sge,
    _Predicate.sge: _Predicate.sle,
    _Predicate.eq: _Predicate.eq,
}
#: Ops that change an integer's or a float's type, and not its value.
_CASTS = {
    op.OPERATION_NAME
    for op in (arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.ExtFOp, arith.TruncFOp)
}
#: Ops whose result is -inf where their first operand is, as the other is a finite number.
_SUMS = {op.OPERATION_NAME for op in (arith.AddFOp, arith.SubFOp)}


class _Comparison(NamedTuple):
    """A comparison that holds, and the op that makes it, in the body of `node`, whose result is `shows` then."""

    predicate: arith.CmpIPredicate
    left: _Sum
    right: _Sum
    node: Node
    op: ir.Operation
    shows: bool


class Table(NamedTuple):
    """A comparison of the elements of two tensors that holds where a query sees a key: `predicate` of an element of
    `keys` and one of `queries`, each a tensor with the classes of its dims. One of the two may be None: the positions
    of the keys, or of the queries, are compared."""

    predicate: arith.CmpIPredicate
    keys: tuple[Value, list[int]] | None
    queries: tuple[Value, list[int]] | None


@dataclass(frozen=True)
class Bound:
    """slope * query + constant: the last key that a query sees, or with `is_lower` the first."""

    slope: int
    constant: int
    is_lower: bool
    #: The comparison that hides keys beyond the bound, and its result for those within.
    op: ir.Operation
    shows: bool

    def key(self, first: Value, last: Value, number: Callable[[int], Value]) -> Value:
        """The bound for a block of queries from `first` to `last`, whichever of them sees furthest."""
        return self._of(first if (self.slope > 0) == self.is_lower else last, number)

    def common_key(self, first: Value, last: Value, number: Callable[[int], Value]) -> Value:
        """The bound of the keys that all queries from `first` to `last` see."""
        return self._of(last if (self.slope > 0) == self.is_lower else first, number)

    def _of(self, query: Value, number: Callable[[int], Value]) -> Value:
        return arith.addi(arith.muli(query, number(self.slope)), number(self.constant))


def bounds_of(nodes: Sequence[Node], factor: Value, queries: int, keys: int, hidden: float) -> list[Bound]:
    """The bounds on the class `keys`, in terms of the class `queries`, outside which `factor`, which the nodes compute,
    is `hidden`: -inf or 0."""
    return list(dict.fromkeys(_Reader(nodes, queries, keys).bounds(factor, hidden)))


def tables_of(nodes: Sequence[Node], factor: Value, queries: int, keys: int, hidden: float) -> list[Table]:
    """The comparisons of tensors, one that has the class `keys` and one that may have the class `queries`, which all
    hold where `factor` is not `hidden`, as in `bounds_of`."""
    return list(_Reader(nodes, queries, keys).tables(factor, hidden))


class _Reader:
    def __init__(self, nodes: Sequence[Node], queries: int, keys: int) -> None:
        self.queries, self.keys = queries, keys
        self.makers = {result: (node, i) for node in nodes for i, result in enumerate(node.op.results)}

    def bounds(self, factor: Value, hidden: float) -> Iterator[Bound]:
        for found in self._shown(None, factor, hidden):
            difference = _joined(arith.SubIOp.OPERATION_NAME, found.left, found.right)
            if difference is not None:
                yield from self._bound(found, difference)

    def tables(self, factor: Value, hidden: float) -> Iterator[Table]:
        for found in self._shown(None, factor, hidden):
            if found.predicate not in _TURNED:
                continue
            sides = [(self._tensor(found.node, x), sum_) for x, sum_ in zip(found.op.operands, found[1:3], strict=True)]
            for predicate, keys, queries in ((found.predicate, *sides), (_TURNED[found.predicate], *reversed(sides))):
                table = Table(predicate, keys[0], queries[0])
                if self._compares(table, keys[1], queries[1]):
                    yield table

    def _compares(self, table: Table, keys: _Sum, queries: _Sum) -> bool:
        """Whether a table compares keys with queries. The linear expressions are those of the two sides."""
        if table.keys is None and table.queries is None:
            return False  # positions alone: a bound
        of_keys = keys == {self.keys: 1} if table.keys is None else self.keys in table.keys[1]
        apart = table.keys is None or self.queries not in table.keys[1]
        of_queries = queries == {self.queries: 1} if table.queries is None else self.keys not in table.queries[1]
        return of_keys and apart and of_queries

    def _tensor(self, node: Node, value: Value) -> tuple[Value, list[int]] | None:
        """The tensor that a value in the body of `node` is an element of, with the classes of its dims."""
        if not isinstance(value.owner, ir.Block):
            return None
        number = ir.BlockArgument(value).arg_number
        return node.inputs[number] if number < len(node.inputs) else None

    def _bound(self, found: _Comparison, difference: dict[int, int]) -> Iterator[Bound]:
        """The bounds that `difference predicate 0` puts on the keys; `difference` is a linear expression."""
        predicate, whole = found.predicate, (found.op, found.shows)
        factor = difference.pop(self.keys, 0)
        constant, slope = difference.pop(_ONE, 0), difference.pop(self.queries, 0)
        if abs(factor) != 1 or difference or predicate not in _TURNED:
            return
        if factor < 0:
            predicate, constant, slope = _TURNED[predicate], -constant, -slope
        if predicate in (_Predicate.slt, _Predicate.sle, _Predicate.eq):
            yield Bound(-slope, -constant - (predicate == _Predicate.slt), False, *whole)
        if predicate in (_Predicate.sgt, _Predicate.sge, _Predicate.eq):
            yield Bound(-slope, -constant + (predicate == _Predicate.sgt), True, *whole)

    def _shown(self, node: Node | None, value: Value, number: float) -> Iterator[_Comparison]:
        """The comparisons that all hold where a value is not `number`, which is -inf or 0."""
        node, op = self._made(node, value)
        if node is None or op is None:
            return
        if op.name in _CASTS:
            yield from self._shown(node, op.operands[0], number)
        elif op.name == arith.MulFOp.OPERATION_NAME and number == 0:
            for factor in op.operands:
                yield from self._shown(node, factor, 0)
        elif op.name == math.ExpOp.OPERATION_NAME and number == 0:
            yield from self._shown(node, op.operands[0], -numbers.inf)
        elif op.name in _SUMS and number != 0:
            yield from self._shown(node, op.operands[0], number)
        elif op.name == arith.SelectOp.OPERATION_NAME:
            condition, x, y = op.operands
            for kept, hidden, negated in ((x, y, False), (y, x, True)):
                if self._constant(node, hidden) == number:
                    yield from self._comparisons(node, condition, negated)
                    yield from self._shown(node, kept, number)

    def _comparisons(self, node: Node, condition: Value, negated: bool) -> Iterator[_Comparison]:
        """The comparisons that all hold where a condition does, or with `negated` where it does not."""
        found, op = self._made(node, condition)
        if found is None or op is None:
            return
        both = arith.OrIOp if negated else arith.AndIOp
        if op.name in _CASTS:
            yield from self._comparisons(found, op.operands[0], negated)
        elif op.name == both.OPERATION_NAME:
            for part in op.operands:
                yield from self._comparisons(found, part, negated)
        elif op.name == arith.XOrIOp.OPERATION_NAME and self._constant(found, op.operands[1]) is True:
            yield from self._comparisons(found, op.operands[0], not negated)
        elif op.name == arith.CmpIOp.OPERATION_NAME:
            predicate = _Predicate(op.attributes["predicate"].value)
            left, right = (self._sum(found, x) for x in op.operands)
            if right == {} and predicate in (_Predicate.ne, _Predicate.eq) and self._is_bool(found, op.operands[0]):
                yield from self._comparisons(found, op.operands[0], negated ^ (predicate == _Predicate.eq))
            elif not negated or predicate in _OPPOSITE:
                yield _Comparison(_OPPOSITE[predicate] if negated else predicate, left, right, found, op, not negated)

    def _is_bool(self, node: Node, value: Value) -> bool:
        """Whether a value is a condition, which is a byte in memory."""
        _, op = self._made(node, value)
        return str(value.type) == "i1" or (op is not None and op.name == arith.ExtUIOp.OPERATION_NAME)

    def _constant(self, node: Node, value: Value) -> float | bool | None:
        """The number that a value is; None where it is no constant."""
        _, op = self._made(node, value)
        return op.attributes["value"].value if op is not None and op.name == arith.ConstantOp.OPERATION_NAME else None

    def _sum(self, node: Node, value: Value) -> _Sum:
        """An integer as a linear expression of positions."""
        found, op = self._made(node, value)
        if found is None or op is None:
            return None
        match op.name:
            case linalg.IndexOp.OPERATION_NAME:
                return {found.classes[INDEX_DIM.of(op)]: 1}
            case arith.ConstantOp.OPERATION_NAME:
                number = op.attributes["value"].value
                return {_ONE: number} if number else {}
            case arith.IndexCastOp.OPERATION_NAME | arith.ExtSIOp.OPERATION_NAME:
                return self._sum(found, op.operands[0])
            case arith.TruncIOp.OPERATION_NAME:  # of a position it is exact: a kernel with longer classes takes i64
                whole = self._sum(found, op.operands[0])
                return whole if whole is not None and list(whole.values()) == [1] else None
            case arith.AddIOp.OPERATION_NAME | arith.SubIOp.OPERATION_NAME | arith.MulIOp.OPERATION_NAME:
                return _joined(op.name, *(self._sum(found, x) for x in op.operands))
        return None

    def _made(self, node: Node | None, value: Value) -> tuple[Node | None, ir.Operation | None]:
        """The op that computes a value, and its node, whichever node of the kernel that is; None for what is loaded."""
        if node is None:
            return self._maker(value)
        if not isinstance(value.owner, ir.Block):
            return node, value.owner
        inputs, number = node.inputs, ir.BlockArgument(value).arg_number
        return self._maker(inputs[number][0]) if number < len(inputs) else (None, None)

    def _maker(self, tensor: Value) -> tuple[Node | None, ir.Operation | None]:
        if tensor not in self.makers:
            return None, None
        node, number = self.makers[tensor]
        *_, end = body_ops(node.op)
        return self._made(node, end.operands[number])


def _joined(name: str, left: _Sum, right: _Sum) -> _Sum:
    """The sum, difference or product of two linear expressions, as the op `name` computes it."""
    if left is None or right is None:
        return None
    if name == arith.MulIOp.OPERATION_NAME:
        for factor, other in ((left, right), (right, left)):
            if set(factor) <= {_ONE}:
                scaled = {c: n * factor.get(_ONE, 0) for c, n in other.items()}
                return {c: n for c, n in scaled.items() if n}
        return None
    sign = -1 if name == arith.SubIOp.OPERATION_NAME else 1
    total = {c: left.get(c, 0) + sign * right.get(c, 0) for c in {*left, *right}}
    return {c: n for c, n in total.items() if n}
