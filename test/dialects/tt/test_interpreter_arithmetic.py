"""What each op of arith and math means in the interpreter, against torch and plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cuesta._mlir import arith, ir
from cuesta._mlir import math as mlir_math
from cuesta.dialects import tt
from cuesta.dialects.open_op import OPEN_OPS
from cuesta.dialects.tt.interpreter.program import MAKERS
from cuesta.dialects.tt.rules import LOWERED
from cuesta.dialects.tt.types import shape_of

Compute = Callable[..., Any]
Tensor = torch.Tensor
INF, NAN = math.inf, math.nan

FLOATS = {
    "arith.addf": torch.add,
    "arith.subf": torch.sub,
    "arith.mulf": torch.mul,
    "arith.divf": torch.div,
    "arith.remf": torch.fmod,
    "arith.maximumf": torch.maximum,
    "arith.minimumf": torch.minimum,
    "arith.maxnumf": torch.fmax,
    "arith.minnumf": torch.fmin,
}
MATH: dict[str, Callable[[Tensor], Tensor]] = {
    "absf": torch.abs,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "erf": torch.erf,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "floor": torch.floor,
    "log": torch.log,
    "log2": torch.log2,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
}


def build(name: str, kind: Callable[[ir.Value], ir.Type] | None = None) -> Callable[..., ir.Value]:
    """Builds `name` on operands; the result has the first one's type, or the one that `kind` says."""

    def make(*operands: ir.Value) -> ir.Value:
        result = operands[0].type if kind is None else kind(operands[0])
        return ir.Operation.create(name, results=[result], operands=list(operands)).result

    return make


def to(element: str) -> Callable[[ir.Value], ir.Type]:
    return lambda x: tt.block_type(shape_of(x), element)


def test_every_op_of_a_kernel_has_a_meaning() -> None:
    ends = {
        "scf.yield",
        "scf.condition",
        *(kind.OPERATION_NAME for kind in (tt.Func, tt.Return, tt.ReduceReturn, tt.ScanReturn)),
    }
    assert LOWERED | {name for name in OPEN_OPS if name.startswith("tt.")} == set(MAKERS) | ends


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FLOATS)
def test_float(compute: Compute, name: str, dtype: torch.dtype) -> None:
    x, y = torch.randn(2, 64).to(dtype), torch.randn(2, 64).to(dtype)
    x[0, :6] = torch.tensor([NAN, 1, INF, 0, -0.0, NAN])
    y[0, :6] = torch.tensor([1, NAN, 2, INF, 3, NAN])
    torch.testing.assert_close(compute(build(name), x, y), FLOATS[name](x, y), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", MATH)
def test_math(compute: Compute, name: str, dtype: torch.dtype) -> None:
    x = torch.randn(2, 64, dtype=dtype)
    x[0, :4] = torch.tensor([NAN, INF, -INF, -0.0])
    torch.testing.assert_close(compute(build(f"math.{name}"), x), MATH[name](x), equal_nan=True)


def test_fused_multiply_add_rounds_once(compute: Compute) -> None:
    x = torch.full((1, 2), 1 + 2.0**-12)
    result = compute(lambda v: mlir_math.fma(v, v, tt.full((2,), "f32", -1.0)), x)
    assert result[0, 0].item() == 2.0**-11 + 2.0**-24


INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "divsi": lambda x, y: int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1),
    "remsi": lambda x, y: abs(x) % abs(y) * (-1 if x < 0 else 1),
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "maxsi": max,
    "minsi": min,
}
UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "divui": lambda x, y: x // y,
    "remui": lambda x, y: x % y,
    "maxui": max,
    "minui": min,
}
WIDTHS = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def wrapped(number: int, width: int) -> int:
    return (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))


def integers(width: int) -> tuple[Tensor, Tensor]:
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    x = torch.randint(low, high, (2, 64), dtype=WIDTHS[width])
    y = torch.randint(1, 100, (2, 64), dtype=WIDTHS[width]) * torch.tensor([[1], [-1]], dtype=WIDTHS[width])
    x[0, :2] = torch.tensor([low, high])
    return x, y


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", INTEGERS)
def test_signed(compute: Compute, name: str, width: int) -> None:
    x, y = integers(width)
    pairs = zip(x.flatten().tolist(), y.flatten().tolist(), strict=True)
    expected = [wrapped(INTEGERS[name](a, b), width) for a, b in pairs]
    assert compute(build(f"arith.{name}"), x, y).flatten().tolist() == expected


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned(compute: Compute, name: str, width: int) -> None:
    x, y = integers(width)
    pairs = zip(x.flatten().tolist(), y.flatten().tolist(), strict=True)
    expected = [wrapped(UNSIGNED[name](a % (1 << width), b % (1 << width)), width) for a, b in pairs]
    assert compute(build(f"arith.{name}"), x, y).flatten().tolist() == expected


def test_shifts_by_the_width_or_more_leave_nothing_but_the_sign(compute: Compute) -> None:
    x = torch.tensor([[-8, -8, 8, 8]], dtype=torch.int32)
    by = torch.tensor([[1, 32, 2, 100]], dtype=torch.int32)
    assert compute(arith.shli, x, by).tolist() == [[-16, 0, 32, 0]]
    assert compute(arith.shrsi, x, by).tolist() == [[-4, -1, 2, 0]]
    assert compute(arith.shrui, x, by).tolist() == [[(2**32 - 8) >> 1, 0, 2, 0]]


def test_bools_are_arithmetic_modulo_two(compute: Compute) -> None:
    x = torch.tensor([[False, False, True, True]])
    y = torch.tensor([[False, True, False, True]])
    assert compute(arith.addi, x, y).tolist() == (x ^ y).tolist()
    assert compute(arith.muli, x, y).tolist() == (x & y).tolist()
    assert compute(arith.maxui, x, y).tolist() == (x | y).tolist()
    assert compute(arith.maxsi, x, y).tolist() == (x & y).tolist()  # a true i1 is -1
    assert compute(build("arith.extsi", to("i32")), x).tolist() == [[0, 0, -1, -1]]
    assert compute(build("arith.extui", to("i32")), x).tolist() == [[0, 0, 1, 1]]
    assert compute(build("arith.uitofp", to("f32")), x).tolist() == [[0, 0, 1, 1]]
    assert compute(build("arith.sitofp", to("f32")), x).tolist() == [[0, 0, -1, -1]]


@pytest.mark.parametrize("predicate", arith.CmpIPredicate)
def test_cmpi(compute: Compute, predicate: arith.CmpIPredicate) -> None:
    x = torch.tensor([[-1, -1, 1, 5]], dtype=torch.int32)
    y = torch.tensor([[1, -1, -1, 7]], dtype=torch.int32)
    name = predicate.name
    read = (lambda n: n % 2**32) if name.startswith("u") else int
    test = {"eq": "__eq__", "ne": "__ne__"}.get(name, f"__{name[1:]}__")
    expected = [getattr(read(a), test)(read(b)) for a, b in zip(x[0].tolist(), y[0].tolist(), strict=True)]
    assert compute(lambda a, b: arith.cmpi(predicate, a, b), x, y).tolist() == [expected]


@pytest.mark.parametrize("predicate", arith.CmpFPredicate)
def test_cmpf(compute: Compute, predicate: arith.CmpFPredicate) -> None:
    x, y = torch.tensor([[1.0, 2.0, 2.0, NAN]]), torch.tensor([[2.0, 2.0, 1.0, 1.0]])
    relations = ["lt", "eq", "gt", "uno"]  # of the four pairs
    name = predicate.name.lower()
    holds = {
        "alwaysfalse": set(),
        "alwaystrue": set(relations),
        "ord": {"lt", "eq", "gt"},
        "uno": {"uno"},
    }.get(name)
    if holds is None:
        holds = {"eq": {"eq"}, "ne": {"lt", "gt"}, "lt": {"lt"}, "le": {"lt", "eq"}, "gt": {"gt"}, "ge": {"gt", "eq"}}[
            name[1:]
        ] | ({"uno"} if name[0] == "u" else set())
    expected = [[r in holds for r in relations]]
    assert compute(lambda a, b: arith.cmpf(predicate, a, b), x, y).tolist() == expected


def test_floats_to_integers_saturate(compute: Compute) -> None:
    x = torch.tensor([[1.9, -1.9, 1e30, -INF, NAN, 3e9, 300.0, 40000.0]])
    low, high = -(2**31), 2**31 - 1
    top = -(2**63)
    signed = {
        "i32": [1, -1, high, low, 0, high, 300, 40000],
        "i16": [1, -1, 32767, -32768, 0, 32767, 300, 32767],
        "i8": [1, -1, -1, 0, 0, -1, 44, -1],  # through i16, then the low byte
        "i64": [1, -1, 2**63 - 1, top, top, 3000000000, 300, 40000],
    }
    for kind, expected in signed.items():
        assert compute(build("arith.fptosi", to(kind)), x).tolist() == [expected], kind
    unsigned = compute(build("arith.fptoui", to("i32")), x)
    assert unsigned.tolist() == [[1, 0, -1, 0, 0, 3000000000 - 2**32, 300, 40000]]
    assert compute(build("arith.fptosi", to("i32")), x.double())[0, 4].item() == low  # NaN of f64


def test_narrowing_rounds_to_nearest_even(compute: Compute) -> None:
    x = torch.cat([torch.randn(62), torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8])]).reshape(1, 64)
    for element, dtype in {"bf16": torch.bfloat16, "f16": torch.float16}.items():
        narrow = compute(build("arith.truncf", to(element)), x)
        torch.testing.assert_close(narrow, x.to(dtype), rtol=0, atol=0)
        wide = compute(build("arith.extf", to("f32")), x.to(dtype))
        torch.testing.assert_close(wide, x.to(dtype).float(), rtol=0, atol=0)
    special = torch.tensor([[NAN, INF, -INF, 3.4e38]])
    expected = special.to(torch.bfloat16)
    torch.testing.assert_close(compute(build("arith.truncf", to("bf16")), special), expected, equal_nan=True)


def test_integers_change_width_and_kind(compute: Compute) -> None:
    x = torch.tensor([[-1, 300, -300, 128]], dtype=torch.int32)
    assert compute(build("arith.trunci", to("i8")), x).tolist() == [[-1, 44, -44, -128]]
    assert compute(build("arith.trunci", to("i1")), x).tolist() == [[True, False, False, False]]
    assert compute(build("arith.extsi", to("i64")), x).tolist() == x.tolist()
    assert compute(build("arith.extui", to("i64")), x)[0, 0].item() == 2**32 - 1
    assert compute(build("arith.sitofp", to("bf16")), x).tolist() == [[-1, 300, -300, 128]]
    assert compute(build("arith.uitofp", to("f64")), x)[0, 0].item() == 2**32 - 1
    there_and_back = compute(lambda v: arith.index_cast(v.type, arith.index_cast(to("index")(v), v)), x)
    assert there_and_back.tolist() == x.tolist()
    assert compute(mlir_math.absi, x).tolist() == [[1, 300, 300, 128]]


def test_constants_that_differ_by_element(compute: Compute) -> None:
    def numbers(x: ir.Value) -> ir.Value:
        values = ir.DenseElementsAttr.get(np.array([1.5, -2, 3, 4], np.float32))
        return arith.addf(x, arith.ConstantOp(x.type, values).result)

    assert compute(numbers, torch.zeros(2, 4)).tolist() == [[1.5, -2, 3, 4]] * 2


def test_select_by_element_and_by_program(compute: Compute) -> None:
    x, y = torch.randn(3, 8), torch.randn(3, 8)
    mask = x > y
    torch.testing.assert_close(compute(arith.select, mask, x, y), torch.where(mask, x, y))
    each = torch.tensor([True, False, True])
    torch.testing.assert_close(compute(arith.select, each, x, y), torch.where(each[:, None], x, y))


def test_precise_and_bits(compute: Compute) -> None:
    x, y = torch.rand(2, 32), torch.rand(2, 32) + 0.5
    # The nearest numbers, by way of f64: torch's own square root (MKL's) misses them by a unit at times.
    assert torch.equal(compute(tt.precise_sqrt, x), x.double().sqrt().float())
    assert torch.equal(compute(tt.precise_divf, x, y), (x.double() / y.double()).float())
    assert torch.equal(compute(lambda v: tt.bitcast(v, "i32"), x), x.view(torch.int32))
    assert torch.equal(compute(lambda v: tt.bitcast(v, "i16"), x.bfloat16()), x.bfloat16().view(torch.int16))
    half = x.bfloat16().view(torch.int16)
    assert torch.equal(compute(lambda v: tt.bitcast(v, "bf16"), half), x.bfloat16())
