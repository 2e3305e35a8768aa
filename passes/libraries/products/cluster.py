"""Finds the ops that the kernel of a matrix product would fuse, so that library and kernel are timed with them.

%0 = cuesta.mm(%x, %gate)                        for either product: both products, silu and mul,
%1 = cuesta.mm(%x, %up)                     →    and the views that are their operands
%2 = cuesta.mul(cuesta.silu(%0), %1)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import AddMatMul, AnyProduct, MatMul
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.shape import Constant, Expand, Permute, Reshape
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES
from cuesta.dialects.types import row_major, shape_of
from cuesta.passes.analysis.layout import dense_strides
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import users
from cuesta.sizes import Number, estimate

PRODUCTS = names_of(MatMul, AddMatMul)
_VIEWS = names_of(Permute, Expand, Reshape)
#: Ops that change only the type or the dims of a value.
_FORMS = names_of(Convert, Reshape)
#: Attributes that `program_text` leaves out: strides, which the arguments have too, and the answer to the question.
_LEFT_OUT = (OPERAND_STRIDES.name, AnyProduct.route.name)
#: The most ops of a cluster, views aside: larger kernels are rare, and each op is written out for every candidate.
_MOST = 24


def cluster(product: ir.Operation) -> list[ir.Operation]:
    """The ops of a product's kernel in program order: products, the ops fused after them, and views that they read."""
    found = [product]
    block = product.operation.block
    wanted = estimate(shape_of(product.results[0]))
    behind = _behind(product)
    while len(found) < _MOST:
        new = next(_joining(found, wanted, behind), None)
        if new is None:
            break
        found.append(new)
    while (last := next(filter(lambda op: _only_forms(op, found), found[1:]), None)) is not None:
        found.remove(last)
    members = set(found)
    for op in found:
        members |= set(_made_of_views(op, members))
    return [op.operation for op in block.operations if op.operation in members]


def _only_forms(op: ir.Operation, found: list[ir.Operation]) -> bool:
    """Whether an op only changes the form of a result that other kernels read: it belongs to these."""
    return op.name in _FORMS and not any(user in found for user in users(op.results[0]))


def _behind(product: ir.Operation) -> set[ir.Operation]:
    """The ops that are computed, through whatever ops, from a product."""
    found: set[ir.Operation] = set()
    pending = [product]
    while pending:
        for result in pending.pop().results:
            new = [user for user in users(result) if user not in found]
            found.update(new)
            pending += new
    return found


def _joining(found: list[ir.Operation], wanted: int, behind: set[ir.Operation]) -> Iterator[ir.Operation]:
    """Ops that a kernel of `found` would fuse: pointwise ops on the whole result, and products beside the first. A
    later sum of residuals, which waits for other ops `behind` the product, is none."""
    first = next(op for op in found if op.name in PRODUCTS)
    for op in found:
        for result in op.results:
            for user in users(result):
                follows = user.name in POINTWISE or Reshape.matches(user)
                fits = follows and estimate(shape_of(user.results[0])) == wanted
                if fits and user not in found and not _waits(user, behind.difference(found)):
                    yield user
        for operand in op.operands if op is not first else ():
            if _leads_to_product_beside(operand, first, wanted) and operand.owner.operation not in found:
                yield operand.owner.operation


def _waits(op: ir.Operation, behind: set[ir.Operation]) -> bool:
    """Whether an op reads a result of one of the ops `behind` a product."""
    return any(not isinstance(x.owner, ir.Block) and x.owner.operation in behind for x in op.operands)


def _leads_to_product_beside(value: ir.Value, first: ir.Operation, wanted: int) -> bool:
    """Whether a value is a product beside `first`, or is computed pointwise from one and no other value of its size."""
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name in PRODUCTS:
            return _alike(op, first)
        large = [x for x in op.operands if estimate(shape_of(x)) == wanted]
        if not (op.name in POINTWISE or Reshape.matches(op)) or len(large) != 1:
            return False
        (value,) = large
    return False


def _alike(a: ir.Operation, b: ir.Operation) -> bool:
    """Whether two products multiply the same matrix by matrices of one size."""
    left, right = ([shape_of(x) for x in list(op.operands)[-2:]] for op in (a, b))
    return a.name == b.name and left == right and a.operands[-2] == b.operands[-2]


def _made_of_views(op: ir.Operation, members: set[ir.Operation]) -> Iterator[ir.Operation]:
    """The views and constants that are an op's operands: their memory order affects the time."""
    for operand in op.operands:
        value = operand
        while not isinstance(value.owner, ir.Block) and value.owner.operation not in members:
            owner = value.owner.operation
            if Constant.matches(owner):
                yield owner
                break
            if owner.name not in _VIEWS:
                break
            yield owner
            value = owner.operands[0]


def boundary(ops: list[ir.Operation]) -> tuple[list[ir.Value], list[ir.Value]]:
    """The values that `ops`, in program order, take from outside, and their results that are read outside."""
    members = set(ops)
    inside = {result for op in ops for result in op.results}
    taken = dict.fromkeys(value for op in ops for value in op.operands if value not in inside)
    given = [result for op in ops for result in op.results if any(user not in members for user in users(result))]
    return list(taken), given


def program_text(ops: list[ir.Operation], memory: MemoryOrder) -> str:
    """The text of a function of `ops`, whose arguments have their strides in the graph: equal for equal work."""
    taken, given = boundary(ops)
    names: dict[ir.Value, str] = {value: f"%arg{i}" for i, value in enumerate(taken)}
    arguments = ", ".join(
        f"{names[value]}: {value.type} {{cuesta.strides = {_listed(_strides(value, memory))}}}" for value in taken
    )
    results = ", ".join(f"{value.type} {{cuesta.strides = {_listed(row_major(shape_of(value)))}}}" for value in given)
    lines = []
    for op in ops:
        outputs = ", ".join(names.setdefault(r, f"%{len(names)}") for r in op.results)
        inputs = ", ".join(names[v] for v in op.operands)
        kept = {name: attribute for name, attribute in op.attributes.items() if name not in _LEFT_OUT}
        attributes = ", ".join(f"{name} = {attribute}" for name, attribute in sorted(kept.items()))
        types = ", ".join(str(v.type) for v in op.operands)
        produced = ", ".join(str(r.type) for r in op.results)
        lines.append(f'{outputs} = "{op.name}"({inputs}) {{{attributes}}} : ({types}) -> ({produced})')
    returned = f"return {', '.join(names[v] for v in given)} : {', '.join(str(v.type) for v in given)}"
    body = "\n  ".join([*lines, returned])
    return f"func.func @graph({arguments}) -> ({results}) {{\n  {body}\n}}"


def _strides(value: ir.Value, memory: MemoryOrder) -> list[Number]:
    """Dense strides in the memory order of a value, as far as the graph tells it."""
    strides = dense_strides(shape_of(value), memory.order(value))
    return list(strides)


def _listed(numbers: Sequence[Number]) -> str:
    return f"[{', '.join(map(str, numbers))}]"
