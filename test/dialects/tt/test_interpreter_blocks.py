"""Ops that move and reduce blocks, control flow and the device libraries in the tt interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch

from cuesta._mlir import arith, ir, scf
from cuesta._mlir import math as mlir_math
from cuesta.dialects import tt
from cuesta.dialects.tt.interpreter import InterpreterError, Kernel
from cuesta.dialects.tt.interpreter.device_library import find

Compute = Callable[..., Any]
Value = ir.Value
GT, EQ, SLT, SGT = arith.CmpFPredicate.OGT, arith.CmpIPredicate.eq, arith.CmpIPredicate.slt, arith.CmpIPredicate.sgt


# -- shapes --------------------------------------------------------------------------------------
def test_shapes(compute: Compute) -> None:
    x, y = torch.randn(3, 4, 8), torch.randn(3, 4, 8)
    assert torch.equal(compute(lambda v: tt.trans(v, [1, 0]), x), x.transpose(1, 2))
    assert torch.equal(compute(lambda v: tt.reshape(v, (2, 16)), x), x.reshape(3, 2, 16))
    assert torch.equal(compute(lambda v: tt.expand_dims(v, 1), x), x[:, :, None])
    first, second = compute(tt.split, torch.stack([x, y], -1))
    assert torch.equal(first, x)
    assert torch.equal(second, y)


def test_values_that_are_the_same_everywhere(compute: Compute) -> None:
    """Splats and broadcasts are kept small inside; every op that looks at single elements must see them whole."""
    s, row = torch.randn(3), torch.randn(3, 8)

    def stretched(v: Value) -> Value:
        return tt.broadcast(tt.expand_dims(v, 0), (4, 8))

    assert torch.equal(compute(lambda v: tt.splat(v, (4, 8)), s), s[:, None, None].expand(3, 4, 8))
    assert torch.equal(compute(lambda v: tt.trans(stretched(v), [1, 0]), row), row[:, :, None].expand(3, 8, 4))
    assert torch.equal(compute(lambda v: tt.reshape(stretched(v), (32,)), row), row.repeat(1, 4))
    total = compute(lambda v: tt.reduce([stretched(v)], 0, arith.addf)[0], row)
    torch.testing.assert_close(total, 4 * row)
    running = compute(lambda v: tt.scan([stretched(v)], 0, arith.addf)[0], row)
    torch.testing.assert_close(running, row[:, None] * torch.arange(1, 5)[:, None])
    assert torch.equal(compute(lambda v: tt.unsplat(tt.splat(v, (1,))), s), s)
    halves = compute(lambda v: tt.split(tt.splat(v, (4, 2))), s)
    assert torch.equal(halves[1], s[:, None].expand(3, 4))
    product = compute(lambda v: tt.dot(tt.splat(v, (16, 16)), tt.splat(v, (16, 16)), tt.full((16, 16), "f32", 1)), s)
    torch.testing.assert_close(product, (16 * s * s + 1)[:, None, None].expand(3, 16, 16))


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_dot(compute: Compute, dtype: torch.dtype, batch: tuple[int, ...]) -> None:
    a, b = torch.randn(2, *batch, 16, 32).to(dtype), torch.randn(2, *batch, 32, 64).to(dtype)
    c = torch.randn(2, *batch, 16, 64, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    expected = (a.double() @ b.double() + c).to(c.dtype)
    torch.testing.assert_close(compute(tt.dot, a, b, c), expected, rtol=1e-5, atol=1e-5)


def test_dot_of_bytes(compute: Compute) -> None:
    a, b = torch.randint(-128, 128, (1, 16, 32), dtype=torch.int8), torch.full((1, 32, 16), 127, dtype=torch.int8)
    c = torch.zeros(1, 16, 16, dtype=torch.int32)
    assert torch.equal(compute(tt.dot, a, b, c), a.int() @ b.int())


# -- reductions ----------------------------------------------------------------------------------
REDUCTIONS: dict[str, tuple[Callable[..., Value], Callable[[torch.Tensor, int], torch.Tensor]]] = {
    "sum": (arith.addf, lambda x, d: x.sum(d)),
    "product": (arith.mulf, lambda x, d: x.prod(d)),
    "amax": (arith.maximumf, lambda x, d: x.amax(d)),
    "amin": (arith.minimumf, lambda x, d: x.amin(d)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduce(compute: Compute, name: str, axis: int, dtype: torch.dtype) -> None:
    combine, reference = REDUCTIONS[name]
    x = (torch.randn(3, 8, 4) + 1).to(dtype)
    x[0, 2, 2] = float("nan")
    result = compute(lambda v: tt.reduce([v], axis, combine)[0], x)
    # bf16 is rounded after each of up to three levels here, by torch once
    bounds = {"rtol": 3e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(result, reference(x, axis + 1), equal_nan=True, **bounds)


def test_reduce_to_a_scalar(compute: Compute) -> None:
    x = torch.randint(-9, 9, (5, 16), dtype=torch.int32)
    assert torch.equal(compute(lambda v: tt.reduce([v], 0, arith.addi)[0], x), x.sum(1).int())
    flags = x > 0
    assert torch.equal(compute(lambda v: tt.reduce([v], 0, arith.ori)[0], flags), flags.any(1))


def test_a_combiner_that_only_looks_like_a_sum(compute: Compute) -> None:
    x = torch.randn(2, 8)
    doubled = compute(lambda v: tt.reduce([v], 0, lambda a, b: arith.addf(a, a))[0], x)
    torch.testing.assert_close(doubled, 8 * x[:, 0])


@pytest.mark.parametrize("axis", [0, 1])
def test_argmax_of_the_first_largest(compute: Compute, axis: int) -> None:
    x = torch.randint(0, 5, (3, 8, 16)).float()

    def argmax(v: Value) -> Value:
        lanes = tt.make_range(0, (8, 16)[axis])
        at = tt.broadcast(tt.expand_dims(lanes, 1 - axis), (8, 16))

        def larger(a: Value, i: Value, b: Value, j: Value) -> tuple[Value, Value]:
            tie = arith.andi(arith.cmpf(arith.CmpFPredicate.OEQ, a, b), arith.cmpi(SLT, i, j))
            first = arith.ori(arith.cmpf(GT, a, b), tie)
            return arith.select(first, a, b), arith.select(first, i, j)

        return tt.reduce([v, at], axis, larger)[1]

    assert torch.equal(compute(argmax, x), x.argmax(axis + 1).int())


def test_welford(compute: Compute) -> None:
    x = torch.randn(3, 64) * 5 + 100

    def moments(v: Value) -> tuple[Value, Value]:
        zero, one = tt.full((64,), "f32", 0), tt.full((64,), "f32", 1)

        def combine(m: Value, s: Value, n: Value, m2: Value, s2: Value, n2: Value) -> tuple[Value, Value, Value]:
            count, delta = arith.addf(n, n2), arith.subf(m2, m)
            share = arith.divf(n2, count)
            mean = arith.addf(m, arith.mulf(delta, share))
            squares = arith.addf(arith.addf(s, s2), arith.mulf(arith.mulf(delta, delta), arith.mulf(n, share)))
            return mean, squares, count

        mean, squares, _ = tt.reduce([v, zero, one], 0, combine)
        return mean, squares

    mean, squares = compute(moments, x)
    torch.testing.assert_close(mean, x.mean(1))
    torch.testing.assert_close(squares / 63, x.var(1))


def test_a_combiner_of_values_from_outside_is_refused(compute: Compute) -> None:
    def captures(v: Value, factor: Value) -> Value:
        return tt.reduce([v], 0, lambda a, b: arith.addf(a, arith.mulf(b, factor)))[0]

    with pytest.raises(InterpreterError, match="combiner of 'tt.reduce' at .* uses a value from outside"):
        compute(captures, torch.randn(2, 8), torch.randn(2))


# -- scans ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_running_sum(compute: Compute, axis: int, reverse: bool, dtype: torch.dtype) -> None:
    x = torch.randint(-9, 9, (2, 16, 8)).to(dtype)
    d = axis + 1
    expected = x.flip(d).cumsum(d).flip(d) if reverse else x.cumsum(d)
    assert torch.equal(compute(lambda v: tt.scan([v], axis, arith.addf, reverse)[0], x), expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_of_two_operands(compute: Compute, reverse: bool) -> None:
    """x[i] = a[i] * x[i - 1] + b[i], as pairs."""
    a, b = torch.rand(2, 32), torch.randn(2, 32)

    def combine(a: Value, b: Value, c: Value, d: Value) -> tuple[Value, Value]:
        return arith.mulf(a, c), arith.addf(arith.mulf(b, c), d)

    result = compute(lambda x, y: tt.scan([x, y], 0, combine, reverse)[1], a, b)
    order = range(31, -1, -1) if reverse else range(32)
    state, expected = torch.zeros(2), torch.zeros(2, 32)
    for i in order:
        state = state * a[:, i] + b[:, i]
        expected[:, i] = state
    torch.testing.assert_close(result, expected)


# -- control flow --------------------------------------------------------------------------------
def loop(low: Value, high: Value, carried: Value, body: Callable[[Value, Value], Value]) -> Value:
    op = scf.ForOp(low, high, tt.constant(1, "i32"), [carried])
    with ir.InsertionPoint(op.body):
        scf.YieldOp([body(op.induction_variable, op.inner_iter_args[0])])
    return op.results[0]


def test_loops_of_different_lengths(compute: Compute) -> None:
    """Program p adds 0 … n[p] - 1; none at all for n ≤ 0."""
    n, x = torch.tensor([5, 0, 3, -2, 100], dtype=torch.int32), torch.randn(5, 8)

    def add_up(count: Value, v: Value) -> Value:
        def body(i: Value, total: Value) -> Value:
            return arith.addf(total, tt.splat(arith.sitofp(tt.element_of(v), i), (8,)))

        return loop(tt.constant(0, "i32"), count, v, body)

    sums = torch.tensor([sum(range(k)) for k in n.tolist()])
    torch.testing.assert_close(compute(add_up, n, x), x + sums[:, None])


def test_branches_of_different_programs(compute: Compute) -> None:
    which, x = torch.tensor([True, False, True]), torch.randn(3, 8)

    def choose(condition: Value, v: Value) -> Value:
        op = scf.IfOp(condition, [v.type], has_else=True)
        with ir.InsertionPoint(op.then_block):
            scf.YieldOp([mlir_math.exp(v)])
        with ir.InsertionPoint(op.else_block):
            scf.YieldOp([arith.mulf(v, v)])
        return op.results[0]

    expected = torch.where(which[:, None], x.exp(), x * x)
    torch.testing.assert_close(compute(choose, which, x), expected)
    same = torch.ones(3, dtype=torch.bool)
    torch.testing.assert_close(compute(choose, same, x), x.exp())


def test_only_programs_in_a_branch_touch_memory(kernel: Callable[..., Kernel]) -> None:
    def write(x: Value) -> None:
        i = tt.get_program_id(0)
        odd = arith.cmpi(EQ, arith.andi(i, tt.constant(1, "i32")), tt.constant(1, "i32"))
        op = scf.IfOp(odd)
        with ir.InsertionPoint(op.then_block):
            tt.store(tt.addptr(x, i), tt.constant(1, "i32"))
            old = tt.atomic_rmw("add", x, tt.constant(10, "i32"))
            assert old.type == i.type
            scf.YieldOp([])

    x = torch.zeros(6, dtype=torch.int32)
    kernel(write, ["i32"]).run((6, 1, 1), [x.data_ptr()], [24])
    assert x.tolist() == [30, 1, 0, 1, 0, 1]


def test_while_until_each_program_is_done(compute: Compute) -> None:
    """Collatz: how many steps to 1."""
    start = torch.tensor([1, 6, 27, 2], dtype=torch.int32)

    def steps(n: Value) -> Value:
        zero, one, two, three = (tt.constant(k, "i32") for k in (0, 1, 2, 3))
        op = scf.WhileOp([n.type, n.type], [n, zero])
        before = op.before.blocks.append(n.type, n.type)
        with ir.InsertionPoint(before):
            scf.ConditionOp(arith.cmpi(SGT, before.arguments[0], one), list(before.arguments))
        after = op.after.blocks.append(n.type, n.type)
        with ir.InsertionPoint(after):
            current, count = after.arguments
            even = arith.cmpi(EQ, arith.remsi(current, two), zero)
            up = arith.addi(arith.muli(current, three), one)
            scf.YieldOp([arith.select(even, arith.divsi(current, two), up), arith.addi(count, one)])
        return op.results[1]

    assert compute(steps, start).tolist() == [0, 8, 111, 1]


# -- device libraries ----------------------------------------------------------------------------
LIBRARY: dict[str, Callable[..., Any]] = {
    "tanh": np.tanh,
    "tan": np.tan,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "log10": np.log10,
    "pow": np.power,
    "rint": np.round,
    "trunc": np.trunc,
    "copysign": np.copysign,
    "cbrt": scipy.special.cbrt,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "fmod": np.fmod,
    "lgamma": scipy.special.gammaln,
    "normcdf": scipy.special.ndtr,
    "hypot": np.hypot,
    "exp2": scipy.special.exp2,
}
BINARY = {"pow", "copysign", "atan2", "fmod", "hypot"}
AMD = {"normcdf": "ncdf"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LIBRARY)
def test_device_library(compute: Compute, name: str, dtype: torch.dtype) -> None:
    tensors = [torch.rand(2, 32, dtype=dtype) * 0.9 + 0.05 for _ in range(2 if name in BINARY else 1)]
    double = dtype == torch.float64
    for symbol in (
        f"__nv_{name}{'' if double else 'f'}",
        f"__ocml_{AMD.get(name, name)}_{'f64' if double else 'f32'}",
    ):
        result = compute(lambda *x, symbol=symbol: tt.extern_elementwise(x, x[0].type, symbol), *tensors)
        expected = LIBRARY[name](*(x.double().numpy() for x in tensors))
        torch.testing.assert_close(result, torch.from_numpy(np.asarray(expected)).to(dtype), rtol=2e-6, atol=1e-6)


def test_round_goes_away_from_zero(compute: Compute) -> None:
    x = torch.tensor([[0.5, 1.5, -0.5, -2.5, 0.49999997, 2.4, -3.7, 0.0]])
    result = compute(lambda v: tt.extern_elementwise([v], v.type, "__nv_roundf"), x)
    assert result.tolist() == [[1, 2, -1, -3, 0, 2, -4, 0]]


def test_an_unknown_symbol() -> None:
    with pytest.raises(InterpreterError, match="does not know __nv_bogus"):
        find("__nv_bogus")
    with pytest.raises(InterpreterError, match="does not know tanh"):
        find("tanh")
