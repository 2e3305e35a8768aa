"""Complex numbers: computed by kernels, viewed without copies, handed to ATen and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta

BOTH = pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
Check = Callable[..., Any]
inf, nan = math.inf, math.nan

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: getattr(torch, name) for name in ("exp", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan")},
    **{name: getattr(torch, name) for name in ("sinh", "cosh", "tanh", "sigmoid", "reciprocal", "abs", "angle", "sgn")},
    "square": torch.square,
    "cube": lambda z: z**3,
    "inverse square": lambda z: z**-2,
}


def numbers(dtype: torch.dtype, *sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(sizes, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def calls() -> list[str]:
    """The overloads that the graphs since the last reset call in ATen."""
    return [call["op"] for graph in cuesta.report().graphs for call in graph.aten_calls]


def test_functions_are_as_exact_as_their_steps() -> None:
    near_1 = torch.polar(torch.ones(512), torch.linspace(-3, 3, 512))
    scales = (1e-42, 1e-22, 1.0, 6.0, 1e18, 1e38)
    z = torch.cat([near_1, *(numbers(torch.complex64, 512, seed=i) * scale for i, scale in enumerate(scales))])
    got = torch.compile(lambda z: [f(z) for f in FUNCTIONS.values()], backend="cuesta")(z)
    assert calls() == []
    for name, f, result in zip(FUNCTIONS, FUNCTIONS.values(), got, strict=True):
        want = f(z.to(torch.complex128))
        # Where neither the result nor a square on the way leaves f32's normal numbers.
        usual = (want.abs() < 1e38) & (want.abs() > 1e-37)
        if name not in ("log", "log2", "sqrt"):
            usual &= (z.abs() < 3e37) & (z.abs() > 1e-37)
        assert usual.sum() > 1000
        error = (result.to(want.dtype) - want).abs() / want.abs()
        assert error[usual].max() < 10 * 2**-24, name


#: A function, a number, and what C's annex G or its own formula says of it.
SPECIAL: tuple[tuple[Check, complex, Any], ...] = (
    (torch.exp, complex(inf, 0), complex(inf, 0)),
    (torch.exp, complex(-inf, nan), 0j),
    (torch.exp, complex(inf, inf), complex(inf, nan)),
    (torch.log, 0j, complex(-inf, 0)),
    (torch.log, complex(-inf, nan), complex(inf, nan)),
    (torch.log, complex(3e38, 3e38), complex(math.log(3e38) + math.log(2) / 2, math.pi / 4)),
    (torch.sqrt, complex(-1, -0.0), -1j),
    (torch.sqrt, complex(nan, inf), complex(inf, inf)),
    (torch.sqrt, complex(3e38, 4e38 / 2), complex(3e38, 2e38) ** 0.5),
    (torch.tanh, complex(inf, inf), 1 + 0j),
    (torch.tanh, complex(0, math.pi / 4), 1j),
    (torch.tanh, complex(50, 1), 1 + 0j),
    (torch.tan, complex(0.25, -inf), -1j),
    (torch.sinh, complex(inf, 0), complex(inf, 0)),
    (torch.cosh, complex(inf, 0), complex(inf, 0)),
    (torch.cos, complex(0, inf), complex(inf, -0.0)),
    (torch.sigmoid, complex(inf, nan), 1 + 0j),
    (torch.abs, complex(3e38, 1e38), math.hypot(3e38, 1e38)),
    (torch.abs, complex(nan, -inf), inf),
    (torch.sgn, 0j, 0j),
    (torch.angle, complex(-1, -0.0), -math.pi),
    (lambda z: z / z, complex(1e30, -1e30), 1 + 0j),
    (lambda z: 1 / z, complex(1e-30, 1e-30), complex(5e29, -5e29)),
    (torch.isnan, complex(inf, nan), True),
    (torch.isinf, complex(nan, -inf), True),
    (torch.isfinite, complex(0, inf), False),
    (torch.isfinite, complex(3e38, -1), True),
    (lambda z: z.bool(), 1j, True),
    (lambda z: z == z, complex(0, nan), False),
)


def test_special_values() -> None:
    given = [torch.full((3,), z, dtype=torch.complex64) for _, z, _ in SPECIAL]
    compiled = torch.compile(lambda *zs: [f(z) for (f, _, _), z in zip(SPECIAL, zs, strict=True)], backend="cuesta")
    results = compiled(*given)
    assert calls() == []
    for (_, z, want), got in zip(SPECIAL, results, strict=True):
        expected = torch.full((3,), want, dtype=got.dtype)
        torch.testing.assert_close(got, expected, equal_nan=True, msg=lambda m, z=z: f"of {z}: {m}")


@BOTH
def test_arithmetic(dtype: torch.dtype, same_as_eager: Check) -> None:
    x, y = numbers(dtype, 7, 5), numbers(dtype, 5, seed=1)
    same_as_eager(
        lambda x, y, r: (
            *(x + y, x - 2j, 1 - x, x * y, x * r, x / y, 2 / x, -x, torch.addcmul(x, x, y, value=2j)),
            *(torch.add(x, y, alpha=1j), x.sum(), x.sum(0), x.mean(1, keepdim=True), x.cumsum(0), x**0, r**1 + 1j),
            *(torch.complex(r, r + 1), torch.polar(r, r), x.conj() * y, x.mH.contiguous(), x.to(torch.complex128)),
            *(x != y, x.any(), x.real, (x * y).imag + 1, x.logical_not(), r.to(dtype), r == x),
        ),
        *(x, y, x.real.clone()),
    )
    assert calls() == []


@BOTH
def test_moves(dtype: torch.dtype, same_as_eager: Check) -> None:
    x, at = numbers(dtype, 6, 4), torch.tensor([5, 0, 2])
    same_as_eager(
        lambda x, at: (
            *(x.t().contiguous(), torch.cat([x, x.flip(0) * 2]), x[at], x.roll(1, 0), x.repeat(2, 1), x.tril()),
            *(torch.nn.functional.pad(x, (1, 2), value=3), torch.where(x.real > 0, x, 1j), x.expand(2, 6, 4) + 1),
            *(x.masked_fill(x.imag > 0, 2j), torch.full((3,), 2 + 1j, dtype=x.dtype), torch.zeros_like(x), x[1:5:2]),
            *(x.gather(0, at[:, None].expand(3, 4)), x.diagonal() * 2, x.reshape(3, 8)[:, 1::3], torch.stack([x, x])),
        ),
        *(x, at),
    )
    assert calls() == []


@BOTH
def test_views_share_memory(dtype: torch.dtype, same_as_eager: Check) -> None:
    real = torch.float32 if dtype == torch.complex64 else torch.float64
    z, x = numbers(dtype, 4, 6), numbers(real, 4, 6, 2)
    same_as_eager(lambda z: (torch.view_as_real(z), z.real, z.t().imag, z.sum()), z)
    same_as_eager(lambda z: torch.view_as_real(z), z[0, 0])
    same_as_eager(lambda x: torch.view_as_complex(x.transpose(0, 1)), x)
    same_as_eager(lambda x: (torch.view_as_complex(x) * 1j, torch.view_as_complex(x * 2), x + 1), x)
    same_as_eager(lambda x: torch.view_as_complex((x + 1).transpose(0, 2).contiguous().transpose(0, 2).contiguous()), x)
    same_as_eager(lambda z: (torch.view_as_real(z * 2).flatten(-2), (z + 1).real, torch.view_as_real(z.t() * 2)), z)
    assert calls() == []


@BOTH
def test_arguments_are_written(dtype: torch.dtype, same_as_eager: Check) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.real.mul_(2)
        torch.view_as_real(x)[..., 1].add_(1)
        x[:, 1:3] *= 1j
        y.copy_(x[0])
        return x * y

    same_as_eager(f, numbers(dtype, 3, 5), numbers(dtype, 5))
    assert calls() == []


def test_lazy_bits_strides_and_sizes(same_as_eager: Check) -> None:
    x = numbers(torch.complex64, 6, 4)
    lazy = (x.conj(), x.conj().imag, x.conj().t()[1:])
    for given in (*lazy, x.t()[::2], x[:, ::2], x[0, 0], x[:0], x.expand(2, 6, 4)):
        same_as_eager(lambda x: (x * 2, x.conj() + 1, x.abs().sum(), -x), given)


def test_lazy_arguments_are_written(same_as_eager: Check) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x *= 1j
        y.add_(1)
        return x.abs()

    z = numbers(torch.complex64, 6, 4)
    same_as_eager(f, z.conj(), z.conj().imag)


def test_calls_and_kernels_meet_on_one_memory(same_as_eager: Check) -> None:
    weight = numbers(torch.complex64, 4, 9)
    x, y = numbers(torch.float32, 4, 16), numbers(torch.complex64, 4, 5)
    same_as_eager(lambda x: torch.fft.irfft(torch.fft.rfft(x * 2) * weight + 1j, n=16) + 1, x)
    assert sorted(calls()) == ["aten._fft_c2r.default", "aten._fft_r2c.default"]  # all else is in kernels
    same_as_eager(lambda y: (y * 2) @ y.mH + y @ y.conj().t(), y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rotary_embedding_is_one_kernel(dtype: torch.dtype, same_as_eager: Check) -> None:
    def rotate(q: Tensor, k: Tensor, turns: Tensor) -> list[Tensor]:
        pairs = [torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) for x in (q, k)]
        return [torch.view_as_real(pair * turns).flatten(3).type_as(q) for pair in pairs]

    turns = torch.polar(torch.ones(6, 1, 4), torch.arange(24.0).reshape(6, 1, 4))
    same_as_eager(rotate, *(numbers(torch.float32, 2, 6, 3, 8, seed=i).to(dtype) for i in range(2)), turns)
    (graph,) = cuesta.report().graphs
    assert graph.launches == 1
    assert not graph.aten_calls


def test_one_program_for_all_sizes(backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(z * (1 + 2j) / z.abs().sum()).flatten(-2) + x.shape[0]

    compiled = torch.compile(f, backend=backend)
    for rows in (3, 5, 7):
        x = numbers(torch.float32, rows, 8)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x), f(x))
    (graph,) = cuesta.report().graphs
    assert graph.fallback is None
    assert not graph.aten_calls


def test_gradients(backend: str) -> None:
    def f(x: Tensor, z: Tensor) -> Tensor:
        w = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * z
        return ((w.exp() + w.tanh() / (2 + w.abs())).abs() + torch.view_as_real(w.sigmoid() * w.conj()).sum(-1)).sum()

    x, z = numbers(torch.float64, 3, 8).requires_grad_(), numbers(torch.complex128, 4).requires_grad_()
    got = torch.autograd.grad(torch.compile(f, backend=backend)(x, z), (x, z))
    torch.testing.assert_close(got, torch.autograd.grad(f(x, z), (x, z)))


def test_on_the_way_to_a_gpu() -> None:
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(z * y).flatten(-2), (z / y).sum(0), z.exp().abs(), z.log().tanh(), y[[2, 0]]

    x, y = numbers(torch.float32, 5, 8), numbers(torch.complex64, 4)
    got = torch.compile(f, backend="cuesta", options={"target": "tt"})(x, y)
    torch.testing.assert_close(got, f(x, y))
    assert calls() == []
    wide = torch.compile(lambda y: y * 2, backend="cuesta", options={"target": "tt"})(y.to(torch.complex128))
    torch.testing.assert_close(wide, y.to(torch.complex128) * 2)
    assert calls() == ["aten.mul.Tensor"]
