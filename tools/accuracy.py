"""Judges compiled results against eager ones, with the same computation in float64 as the arbiter.

Two float32 computations that round in another order differ by more than torch.testing's tolerances once a dozen
layers lie between input and output, and gradients that are zero in exact arithmetic (the bias of an attention key)
consist of nothing but rounding. So a fixed tolerance is either too tight for deep models or blind to small values.
`check_close` accepts a tensor that is about as close to the float64 result as eager's own is.

Gradients of networks with ReLU are not even continuous: where an activation lies within rounding of zero, its sign
decides, and ResNet-18's gradients move by a thousand times their rounding error when every weight is moved by half a
unit in its last place (measured: 2.5e-6 becomes 6.9e-4; in channels_last, eager alone, 3.4e-3). So eager's error is
taken over `neighbours` too: eager runs of the same model, rounded in other ways.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

# Rounding errors of two orders of summation are independent draws from like distributions; the largest of one may
# exceed the largest of the other a few times. An error in the computation is larger by orders of magnitude.
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
    """The tensors of a nested structure (ModelOutput, dict, tuple, …), by their path in it."""
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return {pytree.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, Tensor)}


def as_float64(module: nn.Module, inputs: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Any]]:
    """Copies of a module and its inputs with every floating tensor in float64."""
    wide = {k: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in inputs.items()}
    return copy.deepcopy(module).double(), wide


def neighbours(module: nn.Module, inputs: Mapping[str, Any]) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
    """Copies that are equal in all but rounding: channels_last, and every value moved within its last place, twice."""
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
    """The value, moved by about half a unit in its last place where it has floats."""
    if value.is_complex():
        return torch.view_as_complex(within_rounding(torch.view_as_real(value.resolve_conj()), generator))
    if not value.is_floating_point():
        return value
    return (value * (1 + torch.finfo(value.dtype).eps / 2 * _noise(value, generator))).to(value.dtype)


def _noise(value: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(value.shape, generator=generator, device=generator.device)


def same_form(name: str, actual: Tensor, expected: Tensor) -> Iterable[str]:
    """A message for each of dtype, shape, strides and device in which `actual` is not as `expected`.

    The stride of a dimension of size one addresses nothing, and eager's own kernels disagree with their fake tensors
    about it (the gradient of a channels_last 1x1 convolution): it is not compared. Nor are those of an empty tensor
    (flip of a slice of one).
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
    """None where `actual` is right, or a message.

    `eagers` are eager's value and those of its neighbours; `scale` is the largest magnitude among tensors of the kind.
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
    """As `close_values`, of one computation that may give whole numbers, complex ones, NaN and infinity.

    Values are compared where they are numbers; where they are not, they must not be. Where whole numbers, NaN or
    infinity differ from one of `eagers` to the next they hang on rounding, and anything may be right.
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
    """What neighbours agree on if rounding does not matter: which values are numbers, or the numbers themselves."""
    return x.isnan() + 2 * x.isposinf() + 3 * x.isneginf() if x.is_floating_point() else x


def check_close(
    actual: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    exact: Mapping[str, Tensor],
    *,
    what: str,
    nearby: Sequence[Mapping[str, Tensor]] = (),
) -> None:
    """Raises AssertionError naming every tensor of `actual` that has not the form or the values of `expected`.

    `exact` is the same computation in float64, `nearby` that of eager's `neighbours`. `what` begins the message.
    """
    if actual.keys() != expected.keys():
        extra, missing = sorted(actual.keys() - expected.keys()), sorted(expected.keys() - actual.keys())
        raise AssertionError(f"{what}: eager has no {extra}; missing are {missing}")
    # One scale for all tensors of a kind: a gradient that is pure rounding is small beside the largest one.
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
