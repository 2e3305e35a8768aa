"""Judges compiled results against eager ones, with the same computation in float64 as the arbiter.

Two float32 computations that round in a different order differ by more than torch.testing's tolerances after a dozen
layers. Gradients that are zero in exact arithmetic (the bias of an attention key) consist of rounding errors only. So a
fixed tolerance is either too tight for deep models or blind to small values. `check_close` accepts a tensor that is
about as close to the float64 result as eager's tensor is.

Gradients of networks with ReLU are not even continuous: if an activation is within rounding of zero, its sign decides.
ResNet-18's gradients move by a thousand times their rounding error when every weight is moved by half a unit in its
last place (measured: 2.5e-6 becomes 6.9e-4; in channels_last, eager alone, 3.4e-3). So eager's error is the largest
over `neighbours` too: eager runs of the same model, rounded in other ways.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cuesta.torch_private import pytree

# Rounding errors of two orders of summation are independent draws from similar distributions. The largest of one may
# be a few times the largest of the other. A wrong computation has an error larger by orders of magnitude.
FACTOR = 8.0


@dataclass(frozen=True)
class Tolerance:
    """torch.testing's default tolerances of a dtype."""

    relative: float
    absolute: float


_TOLERANCES = {
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.float32: Tolerance(1.3e-6, 1e-5),
    torch.bfloat16: Tolerance(1.6e-2, 1e-5),
    torch.float16: Tolerance(1e-3, 1e-5),
}


def named_tensors(tree: Any) -> dict[str, Tensor]:
    """Path → tensor, for the tensors of a nested structure (ModelOutput, dict, tuple, …)."""
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return {pytree.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, Tensor)}


def as_float64(module: nn.Module, inputs: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Any]]:
    """Copies of a module and its inputs with every floating tensor in float64."""
    wide = {k: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in inputs.items()}
    return copy.deepcopy(module).double(), wide


@contextmanager
def wide_defaults() -> Iterator[None]:
    """Within, f64 is torch's default dtype, so that float results of integers are f64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def neighbours(module: nn.Module, inputs: Mapping[str, Any]) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
    """Copies that differ in rounding only: one in channels_last, two with every value moved within its last place."""
    channels_last = copy.deepcopy(module)
    for parameter in channels_last.parameters():
        parameter.data = parameter.data.contiguous(memory_format=_natural(parameter))
    yield channels_last, {k: v.contiguous(memory_format=_natural(v)) for k, v in inputs.items()}
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        moved = copy.deepcopy(module)
        with torch.no_grad():
            for parameter in moved.parameters():
                parameter.copy_(within_rounding(parameter, generator))
        yield moved, {k: within_rounding(v, generator) for k, v in inputs.items()}


def _natural(value: Tensor) -> torch.memory_format:
    return torch.channels_last if value.dim() == 4 else torch.contiguous_format


def within_rounding(value: Tensor, generator: torch.Generator) -> Tensor:
    """`value`, moved by about half a unit in the last place if its dtype is floating-point or complex."""
    if value.is_complex():
        return torch.view_as_complex(within_rounding(torch.view_as_real(value.resolve_conj()), generator))
    if not value.is_floating_point():
        return value
    return (value * (1 + torch.finfo(value.dtype).eps / 2 * _noise(value, generator))).to(value.dtype)


def _noise(value: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(value.shape, generator=generator, device=generator.device)


def same_form(name: str, actual: Tensor, expected: Tensor) -> Iterable[str]:
    """A message for each of dtype, shape, device, requires_grad and strides in which `actual` differs from `expected`.

    Strides of dimensions of size one are not compared: they address nothing, and eager's own kernels disagree with
    their fake tensors about them (the gradient of a channels_last 1x1 convolution). Strides of empty tensors (flip of a
    slice of one) are not compared either.
    """
    for what in ("dtype", "shape", "device", "requires_grad"):
        got, want = getattr(actual, what), getattr(expected, what)
        if got != want:
            yield f"{name}: {what} is {got}, eager's is {want}"
    if actual.shape != expected.shape or expected.numel() == 0:
        return
    strides = zip(actual.shape, actual.stride(), expected.stride(), strict=True)
    if any(got != want for size, got, want in strides if size > 1):
        yield f"{name}: strides are {actual.stride()}, eager's are {expected.stride()}"


def largest_error(actual: Tensor, exact: Tensor) -> float:
    """The largest absolute difference, in float64; 0 for an empty tensor."""
    if actual.numel() == 0:
        return 0.0
    return float((actual.detach().double() - exact.detach().double()).abs().max())


def close_values(name: str, actual: Tensor, eagers: Sequence[Tensor], exact: Tensor, scale: float) -> str | None:
    """A message if `actual` is wrong, else None.

    `eagers` are eager's value and the values of its neighbours; `scale` is the largest magnitude among tensors of the
    same kind.
    """
    expected = eagers[0]
    tolerance = _TOLERANCES.get(expected.dtype)
    if tolerance is None:
        return None if torch.equal(actual, expected) else f"{name}: {expected.dtype} values differ from eager's"
    if not torch.equal(actual.isfinite(), expected.isfinite()):
        return f"{name}: NaN or infinity where eager has none, or the reverse"
    own, eager = largest_error(actual, exact), max(largest_error(value, exact) for value in eagers)
    allowed = FACTOR * eager + tolerance.relative * scale
    if own <= allowed:
        return None
    return f"{name}: error {own:.3g} against float64, where {allowed:.3g} is allowed (eager's is {eager:.3g})"


def compare_values(name: str, actual: Tensor, eagers: Sequence[Tensor], exact: Tensor) -> str | None:
    """Like `close_values`, for a computation whose result may be integer or complex, or have NaN and infinity.

    NaN and infinity must be at the same positions as in eager's result; the finite values are compared. If integers, or
    the positions of NaN and infinity, differ among `eagers`, they depend on rounding, and every result is accepted.
    """
    expected = eagers[0]
    if expected.is_complex():
        parts = [torch.view_as_real(x.resolve_conj().resolve_neg()) for x in (actual, *eagers)]
        wide = exact if exact.is_complex() else exact.to(torch.complex128)
        return compare_values(name, parts[0], parts[1:], torch.view_as_real(wide.resolve_conj().resolve_neg()))
    if any(not torch.equal(settled(expected), settled(x)) for x in eagers[1:]):
        return None
    finite = torch.where(exact.isfinite(), exact, 0).double().abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    if not expected.is_floating_point():
        return close_values(name, actual, eagers, exact, scale)
    if not torch.equal(settled(actual), settled(expected)):
        return f"{name}: NaN or infinity where eager has none, or the reverse"
    keep = expected.isfinite() & exact.isfinite()
    return close_values(name, actual[keep], [x[keep] for x in eagers], exact[keep], scale)


def settled(x: Tensor) -> Tensor:
    """The part of `x` that must not depend on rounding: where floats are NaN or infinite; other dtypes entirely."""
    return x.isnan() + 2 * x.isposinf() + 3 * x.isneginf() if x.is_floating_point() else x


def check_close(
    actual: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    exact: Mapping[str, Tensor],
    *,
    what: str,
    nearby: Sequence[Mapping[str, Tensor]] = (),
) -> None:
    """Raises AssertionError if a tensor of `actual` differs from `expected` in form or values; names up to 20 problems.

    `exact` is the same computation in float64, and `nearby` are the results of eager's `neighbours`. `what` begins the
    message.
    """
    if actual.keys() != expected.keys():
        extra, missing = sorted(actual.keys() - expected.keys()), sorted(expected.keys() - actual.keys())
        raise AssertionError(f"{what}: eager has no {extra}; missing are {missing}")
    # One scale for all tensors of a kind, so that a gradient of pure rounding errors counts as small.
    floating = [t for t in exact.values() if t.is_floating_point() and t.numel() > 0]
    scale = max((float(t.detach().abs().max()) for t in floating), default=0.0)
    problems: list[str] = []
    for name, value in actual.items():
        form = list(same_form(name, value, expected[name]))
        problems += form
        if not form:
            eagers = [expected[name], *(other[name] for other in nearby)]
            problem = close_values(name, value, eagers, exact[name], scale)
            problems += [problem] if problem else []
    if problems:
        raise AssertionError(f"{what}: " + "\n  ".join([f"{len(problems)} differences", *problems[:20]]))
