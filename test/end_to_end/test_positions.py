"""Positions of extremes along rows: the first of equals, a NaN before all else, as eager has them."""

import pytest
import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def _extremes(x):
    return *x.max(-1), *x.min(-1, keepdim=True), x.argmax(-1), x.argmin(-1)


def _rows(dtype):
    """12 rows of 77 halves with many equals, and rows of what compares in other ways."""
    x = (torch.randn(12, 77, generator=torch.Generator().manual_seed(0)) * 3).round().to(dtype) / 2
    x[0] = 0.0
    x[0, ::2] = -0.0
    x[1] = -torch.inf
    x[2] = torch.inf
    x[3, [40, 70]] = torch.nan
    x[4, 76] = torch.nan
    x[5, 3], x[5, 60] = torch.inf, torch.nan
    return x


def _check(function, *args, **options):
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, **options)
    for got, wanted in zip(compiled(*args), function(*args), strict=True):
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_rows(dtype, dynamic):
    _check(_extremes, _rows(dtype), dynamic=dynamic)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
def test_integers(dtype):
    _check(_extremes, torch.randint(0, 9, (12, 77), dtype=dtype))


def test_what_lies_otherwise():
    """Columns, rows of a transposed tensor, every other element, and rows that are one row."""
    x = _rows(torch.float32)
    _check(lambda x: _extremes(x.t()), x)
    _check(lambda x: _extremes(x.t().contiguous().t()), x)
    _check(lambda x: _extremes(x[:, ::2]), x)
    _check(lambda x: _extremes(x[3:4].expand(5, 77)), x)


def test_of_all_in_parts():
    """So long a row is reduced in parts, and what it is computed from has two readers."""
    x, y = torch.randn(2, 1 << 18).round(decimals=1)
    _check(lambda x, y: ((x * y + x).argmax(), (x * y).sigmoid().argmin()), x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_long_rows(dtype):
    """Rows of three parts, whose extreme is in several of them, or a NaN in one."""
    x = torch.cat([_rows(dtype), _rows(dtype).flip(0)]).repeat(1, 160)[:, :12288].contiguous()
    x[20, :9000] = 0
    x[21, 5000], x[21, 100] = torch.nan, torch.inf
    _check(lambda x: (*_extremes(x), x.argmax()), x)
