"""Chooses the route of each matrix product, a library or a form of kernel; a part of call-libraries.

    library        %2 = aten.call(%a, %b) {overload = "aten.mm.default"}
    columns        %2 = cuesta.sum(%a[M, K, 1] * %b[1, K, N]) {dims = [1]}    a kernel that walks along b's rows
    rows           %2 = cuesta.sum(%a[M, 1, K] * %bT[1, N, K]) {dims = [2]}   a kernel that walks along K
    tensor cores   %2 = cuesta.mm(%a, %b) {product = "128x256x64/8/4"}        a kernel that multiplies blocks
    panels         %2 = cuesta.mm(%a, %b) {product = "256x192x384 by 8x48"}   the same on a CPU, of f32

A library is made for large products. On CPU it loses on thousands of 3x3 products, and on bf16 products by a vector: a
kernel may be 20 times as fast, or as slow, and no rule of thumb tells which. Large f32 products in panels take 0.4 to
1.1 of MKL's time, and fuse their epilogue. Which is faster depends on the machine, and the module says what was
measured. On a GPU a kernel on tensor cores is about as fast as the library's, and fuses its epilogue; with up to 16
rows it is faster. Where rows do not begin at multiples of 16 bytes, the library falls back to kernels that take two to
five times as long (a vocabulary of 30522: 1.8 ms, ours 0.7). So the library is taken unless rows are few, or ragged on
a GPU, measurements say otherwise, the op's attribute `route` says otherwise, or the option `gemm` asks for kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.contraction import AnyProduct, MatMul
from cuesta.dialects.cuesta.dialect import Cuesta
from cuesta.dialects.cuesta.shape import Permute
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import measured_products, target_of
from cuesta.dialects.types import byte_size, shape_of, spelling_of, static_shape
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.libraries.products.cluster import PRODUCTS, cluster, program_text
from cuesta.passes.libraries.products.packed_weights import packed_panels
from cuesta.passes.libraries.products.panels import (
    ANY_ROWS,
    has_slow_f16,
    is_faster,
    is_faster_by_a_vector,
    panels_of,
    rows_of,
)
from cuesta.passes.libraries.products.quantised import quantised_factor
from cuesta.passes.libraries.products.tiles import (
    SHARED,
    SHARED_ON_AMD,
    Plan,
    plan_of_few_rows,
    plan_of_ragged_rows,
    plans,
    taken_in_turns,
)
from cuesta.policy.choices import Question, choose, measuring
from cuesta.policy.few_rows import FEW_ROWS
from cuesta.policy.product_kinds import KERNEL, LIBRARY, kind_of
from cuesta.sizes import Size, hint
from cuesta.targets import Target

_B = GraphBuilder()
#: The routes but for LIBRARY. A plan follows "tensor cores", and panels follow "panels": "panels 256x192x384 by 8x48".
COLUMNS, ROWS, TENSOR_CORES, PANELS = "columns", "rows", "tensor cores", "panels"

#: On CPU a kernel may beat the library if M, K or N is at most this many.
_NARROW = 16
#: The largest K for which a sum in order is as exact as a library's sum in blocks.
_LONGEST_SUM = 4096
#: The most multiplications of a product that can be measured within milliseconds.
_MOST_WORK = 1 << 26
_FLOATS = ("f32", "f64", "bf16", "f16")
#: Products of these are summed in f32. The error of such a sum is far below the rounding of the result.
NARROW_FLOATS = ("bf16", "f16")
#: Element types that are packed in panels, as f32. For bf16, oneDNN reaches 0.87 of the peak of a CPU with bf16.
_IN_PANELS = ("f32", "f16")
#: The most kernels that are timed beside the library on a GPU, and the share of the first candidate's time that another
#: one may take at most: timings on a GPU repeat closely, so a small gain counts.
_MEASURED, _WORTH = 7, 0.97
#: The most rows of f16 that ATen multiplies by a linear layer's weight in less time than a copy of it in f32 takes.
_FEW_ROWS_OF_F16 = 8
#: The least elements of a weight by which a GPU multiplies a few rows in a kernel of ours.
_LARGE_WEIGHT = 1 << 20
#: The library's fast kernels need rows that are multiples of this many bytes. This matters from so many multiplications
#: on.
_ALIGNED, _RAGGED_WORK = 16, 1 << 24
#: Element types that tensor cores multiply, f32 if torch allows TF32; else a GPU's other units multiply f32.
_ON_GPU = ("f32", "bf16", "f16")


def mark_routes(module: ir.Module, gemm: str) -> None:
    """Marks each product of a module with its route. Builds no ops, as measured candidates are modules of their own.

    `gemm` is the option of that name: "auto", "library" or "kernel".
    """
    memory, target, measured = MemoryOrder(), target_of(module), measured_products(module)
    for function in functions(module):
        for view in function.regions[0].blocks[0].operations:
            op = view.operation
            if op.name not in PRODUCTS or AnyProduct.route.is_on(op) or MatMul.product.is_on(op):
                continue
            route = LIBRARY
            if gemm != "library":
                route = _route_on_gpu(op, memory, gemm, target) if target.gpu else _route(op, memory, gemm, measured)
            AnyProduct.route.put(op, route)


def _route(op: ir.Operation, memory: MemoryOrder, gemm: str, measured: Mapping[str, str]) -> str:
    sizes = _sizes(op)
    if sizes is None:
        return _route_of_any_rows(op, memory, gemm, measured)
    own = _in_panels_of(op, sizes) or _by_a_vector(op, sizes, memory) or _by_few_rows(op, sizes, memory)
    if own is not None and (gemm == "kernel" or packed_panels(op.operands[-1]) is not None):
        return own
    if spelling_of(op.results[0]) not in _FLOATS:
        return LIBRARY
    ways = [LIBRARY]
    if own is not None:
        ways.insert(0 if _is_faster(op, sizes, memory, measured) else 1, own)
    if not _may_be_a_kernel(sizes):
        return _measured_with_what_follows(op, sizes, memory, tuple(ways)) if measuring() else ways[0]
    # With one column, b has no rows to walk along.
    ways += [ROWS] if sizes[-1] == 1 else [COLUMNS, ROWS]
    return choose(_question(op, sizes, tuple(dict.fromkeys(ways))), op)


def _route_of_any_rows(op: ir.Operation, memory: MemoryOrder, gemm: str, measured: Mapping[str, str]) -> str:
    """The route of a product with symbolic sizes: panels if only the number of rows is symbolic. No rule of thumb can
    go by an unknown number of rows, but what was measured holds for any number."""
    about = _about(op)
    if about is None or min(about[1:]) < 2 or spelling_of(op.results[0]) != "f32":
        return LIBRARY
    _, k, n = about
    is_faster = gemm == "kernel" or measured.get(_kind(op, memory)[0]) == KERNEL
    return f"{PANELS} {panels_of(ANY_ROWS, n, k)}" if is_faster else LIBRARY


def _kind(op: ir.Operation, memory: MemoryOrder) -> tuple[str, bool]:
    """A product's kind, and whether the columns of its right factor are contiguous."""
    turned, across = (_is_turned(x, memory) for x in list(op.operands)[-2:])
    return kind_of(turned, across), across


def _is_turned(x: ir.Value, memory: MemoryOrder) -> bool:
    """Whether the columns of a matrix are contiguous, not its rows. A value of unknown order counts as row-major."""
    order, view = memory.order(x), maker(x, Permute)
    if view is not None and not memory.knows(x):
        order = Permute.dims.of(view)
    return order[-1] == len(order) - 2


def _is_faster(op: ir.Operation, sizes: list[int], memory: MemoryOrder, measured: Mapping[str, str]) -> bool:
    """Whether a kernel beats the library: as measured for the product's kind, or because the product has few rows. For
    matrices of f16, whether the library lacks f16 instructions."""
    *batch, m, k, n = sizes
    spelling = spelling_of(op.results[0])
    if spelling in NARROW_FLOATS and (1 in (m, n) or _by_few_rows(op, sizes, memory) is not None):
        return not batch and is_faster_by_a_vector(max(m, n), k)
    if spelling == "f16":
        return has_slow_f16()
    kind, across = _kind(op, memory)
    if batch and 1 in (m, k, n):
        return False  # never measured
    return measured.get(kind) == KERNEL or (not batch and is_faster(m, n, k, across))


def _measured_with_what_follows(
    op: ir.Operation, sizes: list[int], memory: MemoryOrder, candidates: tuple[str, ...]
) -> str:
    """The candidate that is fastest together with the ops that a kernel would fuse; the first one if any of these ops
    has symbolic sizes."""
    ops = cluster(op)
    if any(isinstance(n, Size) for inner in ops for value in inner.operands for n in shape_of(value)):
        return candidates[0]
    about = f"{_title(op, sizes)}, {len(ops)} ops"
    return choose(Question("gemm", about, program_text(ops, memory), candidates, _WORTH), op)


def _in_panels_of(op: ir.Operation, sizes: list[int]) -> str | None:
    """The route in panels of a product of f32 or f16 matrices; None for other products."""
    if math.prod(sizes) == 0 or min(sizes[-3:]) < 2 or spelling_of(op.results[0]) not in _IN_PANELS:
        return None
    *batch, m, k, n = sizes
    panels = packed_panels(op.operands[-1])
    return f"{PANELS} {panels_of(m, n if panels is None else static_shape(panels)[2], k, math.prod(batch))}"


def _by_a_vector(op: ir.Operation, sizes: list[int], memory: MemoryOrder) -> str | None:
    """The route of a product by a vector: the kernel reads the matrix once, in memory order. None for other products,
    for f64, where a sum of f32 in order would be long, and for matrices that are transposed in the caller's memory, for
    which fusion makes two kernels."""
    spelling = spelling_of(op.results[0])
    if math.prod(sizes) == 0 or 1 not in sizes[-3:] or spelling not in ("f32", *NARROW_FLOATS):
        return None
    *_, k, n = sizes
    left, right = list(op.operands)[-2:]
    if n == 1:
        return None if _is_turned(left, memory) else ROWS
    if _is_turned(right, memory):
        return ROWS if maker(right, Permute) is not None else None
    return COLUMNS if k <= _LONGEST_SUM or spelling in NARROW_FLOATS else None


def _by_few_rows(op: ir.Operation, sizes: list[int], memory: MemoryOrder) -> str | None:
    """The route of a product of a few rows of bf16 by a linear layer's weight: as with a vector, the kernel reads each
    row of the weight once, and has the sums of all rows of the left factor in registers. A quantised weight is unpacked
    there. None for other products."""
    left, right = list(op.operands)[-2:]
    if spelling_of(op.results[0]) != "bf16" or len(sizes) != 3 or not 1 < sizes[0] <= FEW_ROWS or 0 in sizes:
        return None
    m, k, n = sizes
    quantised = quantised_factor(right)
    if quantised is not None and quantised.fits(m):
        return ROWS
    found = rows_of(m, n, k) if _is_turned(right, memory) and not _is_turned(left, memory) else None
    return None if found is None or k == 1 else f"{PANELS} {found}"


def is_best_left_narrow(op: ir.Operation, memory: MemoryOrder) -> bool:
    """Whether a product of narrow floats, on a CPU without instructions for them, is computed faster by a kernel of
    ours or by ATen's loops than from widened copies of its factors. True for products by a vector, for the few rows of
    bf16 for which there is a kernel, and for 2 to 8 rows of f16 by a linear layer's weight. Measured on a Zen 3
    (decision 65)."""
    sizes = _sizes(op)
    if sizes is None or len(sizes) != 3:
        return False
    m, k, n = sizes
    if 1 in (m, n):
        return True
    if spelling_of(op.results[0]) == "f16":
        return m <= _FEW_ROWS_OF_F16 and _is_turned(op.operands[-1], memory)
    return _by_few_rows(op, sizes, memory) is not None and is_faster_by_a_vector(max(m, n), k)


def _question(op: ir.Operation, sizes: list[int], ways: tuple[str, ...]) -> Question:
    types = ", ".join(str(v.type) for v in (*op.operands, *op.results))
    attributes = sorted(f"{name} = {attribute}" for name, attribute in op.attributes.items())
    return Question("product", _title(op, sizes), f"{op.name} {types} {attributes}", ways)


def _title(op: ir.Operation, sizes: list[int]) -> str:
    """What reports call a product: "mm 64x1x64 bf16"."""
    _, _, name = op.name.partition(".")
    return f"{name} {'x'.join(map(str, sizes))} {spelling_of(op.results[0])}"


def _route_on_gpu(op: ir.Operation, memory: MemoryOrder, gemm: str, target: Target) -> str:
    known, spelling = _sizes(op), spelling_of(op.results[0])
    sizes = known if known is not None else _about(op)
    # Candidates are programs of their own, whose sizes must be numbers.
    measured = gemm == "auto" and measuring() and known is not None
    if sizes is None or math.prod(sizes) == 0 or spelling not in _ON_GPU:
        return LIBRARY
    if known is None and (1 in sizes or not _has_known_rows(op, memory)):
        return LIBRARY
    *batch, m, k, n = sizes
    is_along_rows = not batch and _is_along_rows(op, m, n, memory)
    if is_along_rows and not measured:
        return ROWS
    few = not batch and known is not None and _has_few_rows(op, known, memory)
    own = [plan_of_few_rows(n, k)] if few else []
    if own and not measured:
        return f"{TENSOR_CORES} {own[0]}"
    is_ragged = _is_ragged(op, sizes, memory)
    if not (gemm == "kernel" or measured or is_ragged):
        return LIBRARY
    if 1 in (m, k, n):
        ways = [ROWS] if n == 1 or is_along_rows else [COLUMNS, ROWS]
    elif measured and spelling == "f32" and not AnyProduct.precision.is_on(op):
        return LIBRARY  # without tensor cores a library's kernels are twice as fast
    else:
        scattered = _is_scattered(op, memory) or (spelling == "f32" and not AnyProduct.precision.is_on(op))
        shared = SHARED_ON_AMD if target.kind == "hip" else SHARED
        ragged = None if batch or scattered or known is None else _plan_of_ragged_rows(m, n, spelling, target)
        own += [ragged] if ragged is not None else []
        product = (math.prod(batch), m, n, k, byte_size(spelling))
        found = plans(*product, scattered, shared)
        found = [*own, *(found if known is None else [taken_in_turns(plan, *product) for plan in found])]
        ways = [f"{TENSOR_CORES} {plan}" for plan in found]
    if not measured:
        return ways[0]
    # What the rule of thumb takes comes first: where no time is left to measure, the first candidate is taken.
    ways = ways[:_MEASURED]
    ours_first = is_along_rows or few or is_ragged
    return _measured_with_what_follows(op, sizes, memory, (*ways, LIBRARY) if ours_first else (LIBRARY, *ways))


def _plan_of_ragged_rows(m: int, n: int, spelling: str, target: Target) -> Plan | None:
    """The plan of a product whose result's rows begin unaligned, on Hopper, where it was measured; else None."""
    is_measured = target.kind == "cuda" and target.arch == "90" and spelling in NARROW_FLOATS
    return plan_of_ragged_rows(m, n) if is_measured and n * byte_size(spelling) % _ALIGNED else None


def _is_along_rows(op: ir.Operation, m: int, n: int, memory: MemoryOrder) -> bool:
    """Whether a product by a vector walks along contiguous rows of its matrix, as with the weight of a linear layer.
    Read once at the memory's speed, and with what precedes and follows it in the same kernel, it beats the library: a
    weight of 16384x2048 in bf16 took 23.9 us on an H100, and cuBLAS 26.2."""
    left, right = list(op.operands)[-2:]
    return (m == 1 and n > 1 and _is_turned(right, memory)) or (n == 1 and m > 1 and not _is_turned(left, memory))


def _has_few_rows(op: ir.Operation, sizes: list[int], memory: MemoryOrder) -> bool:
    """Whether a product multiplies a few rows by a large weight of a linear layer, in types that tensor cores multiply.
    A kernel with what follows the product in it beats the library: a decoding step with 8 rows took 1.23 ms on an H200,
    with cuBLAS 1.39."""
    m, k, n = sizes
    left, right = list(op.operands)[-2:]
    if spelling_of(op.results[0]) not in NARROW_FLOATS or not 1 < m <= FEW_ROWS or k * n < _LARGE_WEIGHT:
        return False
    return _is_turned(right, memory) and not _is_turned(left, memory) and not _is_scattered(op, memory)


def _is_ragged(op: ir.Operation, sizes: list[int], memory: MemoryOrder) -> bool:
    """Whether some matrix of a large product of narrow floats has rows that are no multiple of `_ALIGNED` bytes."""
    *_, m, k, n = sizes
    if spelling_of(op.results[0]) not in NARROW_FLOATS or min(m, n, k) == 1 or math.prod(sizes) < _RAGGED_WORK:
        return False
    factors = list(op.operands)[-2:]
    rows = [n, *(hint(shape_of(x)[memory.order(x)[-1]]) for x in factors)]
    return any(row * byte_size(spelling_of(op.results[0])) % _ALIGNED for row in rows)


def _is_scattered(op: ir.Operation, memory: MemoryOrder) -> bool:
    """Whether the rows of a factor begin unaligned, so that its elements are loaded one by one. Our kernels write their
    own results in aligned rows."""
    for x in list(op.operands)[-2:]:
        row = hint(shape_of(x)[memory.order(x)[-1]]) * byte_size(spelling_of(x))
        if row % _ALIGNED and _is_given(x) and not memory.is_aligned(x, _ALIGNED):
            return True
    return False


def _is_given(x: ir.Value) -> bool:
    """Whether x, or what it is a view of, comes from the caller or a library."""
    while not isinstance(x.owner, ir.Block) and x.owner.name in VIEWS:
        x = x.owner.operands[0]
    return isinstance(x.owner, ir.Block) or not Cuesta.owns(x.owner)


def _sizes(op: ir.Operation) -> list[int] | None:
    """[batch,] M, K, N if all of them are numbers, else None."""
    a, b = (shape_of(x) for x in list(op.operands)[-2:])
    sizes = [*a, b[-1]]
    return None if any(isinstance(n, Size) for n in sizes) else [n for n in sizes if isinstance(n, int)]


def _about(op: ir.Operation) -> list[int] | None:
    """M, K, N of a product without a batch where only M may be symbolic, with an estimate of M; else None."""
    (*batch, m, k), n = shape_of(op.operands[-2]), shape_of(op.operands[-1])[-1]
    if batch or not isinstance(k, int) or not isinstance(n, int):
        return None
    return [hint(m), k, n]


def _has_known_rows(op: ir.Operation, memory: MemoryOrder) -> bool:
    """Whether the length of a row in memory is a number for both factors."""
    return all(isinstance(shape_of(x)[memory.order(x)[-1]], int) for x in list(op.operands)[-2:])


def _may_be_a_kernel(sizes: list[int]) -> bool:
    *_, m, k, n = sizes
    return min(m, k, n) <= _NARROW and k <= _LONGEST_SUM and 0 < math.prod(sizes) <= _MOST_WORK
