"""Converts an exported program to and from what `pickle`, `copy` and `torch.save` keep: artefact, signature, weights.

A weight is kept as a place in a storage, and each storage once, as one flat tensor. So weights that share memory also
share it in the copy, whether plain pickle, `copy.deepcopy` or `torch.save` copies the tensors (only `torch.save` would
preserve sharing by itself). The code is loaded anew, so it is refused where `cuesta.load` would refuse it: under
another torch, or on a CPU that lacks instructions. A pickle can run any code before we have a say; SECURITY.md says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from cuesta.driver.loading import load
from cuesta.errors import ArtefactError
from cuesta.export.program_file import check_origin, origin
from cuesta.export.signature import Input, Signature
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.torch_private.pytree import TreeSpec, treespec_dumps, treespec_loads
from cuesta.torch_private.tensors import storage_key

#: The format of the arguments of `parts_of`.
_FORMAT = 1


@dataclass(frozen=True)
class _Weight:
    """The place of a tensor in the flat tensor of its storage."""

    storage: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    parameter: bool
    requires_grad: bool

    def of(self, storages: list[torch.Tensor]) -> torch.Tensor:
        flat = storages[self.storage]
        tensor = torch.empty(0, dtype=self.dtype, device=flat.device)
        tensor.set_(flat.untyped_storage(), self.offset, self.sizes, self.strides)
        return torch.nn.Parameter(tensor, self.requires_grad) if self.parameter else tensor


def state_of(artefact: Artefact, signature: Signature, weights: Mapping[str, torch.Tensor]) -> tuple[Any, ...]:
    """Plain data from which `parts_of` rebuilds a program's parts."""
    described, storages = _described(weights)
    specs = [_as_text(spec) for spec in (signature.in_spec, signature.out_spec)]
    return _FORMAT, origin(), artefact.to_bytes(), signature.inputs, specs, signature.ranges, described, storages


def parts_of(
    form: int,
    made_for: Mapping[str, Any],
    artefact: bytes,
    inputs: list[Input],
    specs: list[str | TreeSpec],
    ranges: dict[str, tuple[int, int | None]],
    weights: Mapping[str, _Weight],
    storages: list[torch.Tensor],
) -> tuple[Artefact, Executable, Signature, dict[str, torch.Tensor]]:
    """Rebuilds a program's parts from the result of `state_of`. Raises what `cuesta.load` does, except for errors of
    files."""
    if form != _FORMAT:
        raise ArtefactError(f"a pickled program of format {form}; this version reads format {_FORMAT}")
    check_origin("the pickled program", made_for)
    read = Artefact.from_bytes(artefact)
    in_spec, out_spec = (treespec_loads(spec) if isinstance(spec, str) else spec for spec in specs)
    tensors = {name: weight.of(storages) for name, weight in weights.items()}
    return read, load(read), Signature(inputs, in_spec, out_spec, ranges), tensors


def _as_text(spec: TreeSpec) -> str | TreeSpec:
    """A spec as text, which every version of torch reads; the spec itself if text cannot name its containers."""
    try:
        return treespec_dumps(spec)
    except NotImplementedError:
        return spec


def _described(weights: Mapping[str, torch.Tensor]) -> tuple[dict[str, _Weight], list[torch.Tensor]]:
    numbers: dict[int, int] = {}
    storages: list[torch.Tensor] = []
    described: dict[str, _Weight] = {}
    for name, tensor in weights.items():
        number = numbers.setdefault(storage_key(tensor), len(storages))
        if number == len(storages):
            storages.append(_flat(tensor))
        described[name] = _Weight(
            number,
            int(tensor.storage_offset()),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.dtype,
            isinstance(tensor, torch.nn.Parameter),
            tensor.requires_grad,
        )
    return described, storages


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """A flat tensor over all of a tensor's storage. It has the tensor's dtype if that divides the storage, because
    torch.save wants one dtype per storage."""
    storage = tensor.untyped_storage()
    whole = storage.nbytes() % tensor.element_size() == 0
    dtype = tensor.dtype if whole else torch.uint8
    return torch.empty(0, dtype=dtype, device=tensor.device).set_(storage)
