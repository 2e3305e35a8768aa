"""Copies and runs one sample of an operator's arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cuesta.tools.accuracy import named_tensors, within_rounding
from cuesta.torch_private import pytree
from cuesta.torch_private.tensors import negative_bit

_WIDE = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex64: torch.complex128,
}


@dataclass(frozen=True)
class Run:
    """The outcome of a run. `forward` maps names to its results, and to its arguments after the run."""

    forward: dict[str, Tensor]
    gradients: dict[str, Tensor]
    #: the returned values that are no tensors, and the nesting, as text
    others: str
    #: what the backward pass raised
    problem: Exception | None = None


@dataclass(frozen=True)
class Sample:
    """Arguments of an operator. `differentiable` maps the operator's return value to its differentiable part."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    differentiable: Callable[[Any], Any]

    @staticmethod
    def of(sample: Any) -> Sample:
        """Converts torch's SampleInput."""
        return Sample((sample.input, *sample.args), sample.kwargs, sample.output_process_fn_grad)

    def copy(self, change: Callable[[Tensor], Tensor] = lambda x: x) -> Sample:
        """A copy of the sample with new tensors. Strides and aliases among the tensors stay the same.

        `change` is applied to each whole storage, as a vector of one dtype.
        """
        storages: dict[tuple[int, torch.dtype], Tensor] = {}

        def fresh(x: Any) -> Any:
            return _fresh(x, storages, change) if isinstance(x, Tensor) else x

        args, kwargs = pytree.tree_map(fresh, (self.args, self.kwargs))
        return Sample(args, kwargs, self.differentiable)

    def moved(self, seed: int) -> Sample:
        """A copy with other roundings: each float is moved within its last place."""
        generators: dict[torch.device, torch.Generator] = {}

        def move(x: Tensor) -> Tensor:
            if x.device not in generators:
                generators[x.device] = torch.Generator(x.device).manual_seed(seed)
            return within_rounding(x, generators[x.device])

        return self.copy(move)

    def wide(self) -> Sample:
        """A copy in f64 and complex128, including dtype arguments."""
        copied = self.copy(lambda x: x.to(_WIDE.get(x.dtype, x.dtype)))
        args, kwargs = pytree.tree_map(
            lambda x: _WIDE.get(x, x) if isinstance(x, torch.dtype) else x, (copied.args, copied.kwargs)
        )
        return Sample(args, kwargs, self.differentiable)

    def run(self, function: Callable[..., Any], train: bool) -> Run:
        """Calls `function` on this sample's own tensors with a fixed seed, and then runs the backward if `train`."""
        torch.manual_seed(0)
        returned = function(*self.args, **self.kwargs)
        forward = {f"result{name}": x for name, x in named_tensors(returned).items()}
        given = named_tensors((self.args, self.kwargs))
        forward |= {f"argument{name}": x.detach() for name, x in given.items()}
        try:
            gradients = self._gradients(returned) if train else {}
        except Exception as problem:  # the survey looks for anything that is raised
            return Run(forward, {}, _others(returned), problem)
        return Run(forward, gradients, _others(returned))

    def _gradients(self, returned: Any) -> dict[str, Tensor]:
        ends = [x for x in pytree.tree_leaves(self.differentiable(returned)) if isinstance(x, Tensor)]
        ends = [x for x in ends if x.requires_grad]
        if not ends:
            return {}
        torch.autograd.backward([_weighted(x, seed) for seed, x in enumerate(ends)])
        given = named_tensors((self.args, self.kwargs))
        return {f"gradient{name}": x.grad for name, x in given.items() if x.grad is not None}


def _fresh(x: Tensor, storages: dict[tuple[int, torch.dtype], Tensor], change: Callable[[Tensor], Tensor]) -> Tensor:
    if x.layout != torch.strided:
        return x.detach().clone().requires_grad_(x.requires_grad)
    conjugated, negated = x.is_conj(), x.is_neg()
    plain = x.detach()
    plain = plain.conj() if conjugated else plain
    plain = negative_bit(plain) if negated else plain
    storage = plain.untyped_storage()
    key = (storage.data_ptr() or id(x), x.dtype)
    if key not in storages:
        count = storage.nbytes() // x.element_size()
        storages[key] = change(torch.empty(0, dtype=x.dtype, device=x.device).set_(storage, 0, (count,), (1,)).clone())
    y = storages[key].as_strided(x.shape, x.stride(), x.storage_offset())
    y = negative_bit(y) if negated else y
    y = y.conj() if conjugated else y
    return y.detach().requires_grad_(x.requires_grad)


def _weighted(x: Tensor, seed: int) -> Tensor:
    """A real scalar: the sum of x times fixed random weights from [1/2, 3/2)."""
    generator = torch.Generator().manual_seed(seed)
    # Drawn as float32 and then converted to x's dtype, so that a wide run has the same weights.
    dtype = torch.complex64 if x.is_complex() else torch.float32
    weights = (torch.rand(x.shape, generator=generator, dtype=dtype) + 0.5).to(x.device, x.dtype)
    total = (x * weights).sum()
    return total.real if total.is_complex() else total


def _others(returned: Any) -> str:
    """The returned values that are no tensors, and the nesting, as text."""
    leaves, spec = pytree.tree_flatten(returned)
    return f"{[None if isinstance(leaf, Tensor) else leaf for leaf in leaves]} in {spec}"
