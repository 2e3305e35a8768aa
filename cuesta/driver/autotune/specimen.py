"""Defines specimens: a specimen is timed, in a library and in our kernel, for all computations of its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

#: The kernel is taken where it saves a twentieth. The shortest times, which are compared, differ by a hundredth from
#: run to run.
WORTH = 0.95


@dataclass(frozen=True)
class Specimen:
    """One computation of a kind. `name` is the kind's name in a module; `kind` and `about` are for reports."""

    name: str
    kind: str
    about: str
    #: all that the answer may depend on besides the machine
    key: str
    inputs: Callable[[], list[torch.Tensor]]
    library: Callable[..., object]
    #: the same in the cuesta dialect
    module: str
    #: reuses that specimen's result if it is decisive
    like: Specimen | None = None
    #: the result is decisive if the ratio of kernel time to library time is outside of this range
    clear: tuple[float, float] = (0.7, 1.2)


def random_tensor(sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """A tensor with the same random numbers each time; leaves the user's generator alone."""
    tensor = torch.empty_strided(sizes, strides, dtype=torch.float32, device="cpu")
    return tensor.normal_(generator=torch.Generator("cpu").manual_seed(0))


def is_plain(x: object) -> bool:
    """Whether a node's value is a strided f32 tensor, which a kernel may read."""
    return isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.layout == torch.strided


def argument(name: str, sizes: Sequence[int], strides: Sequence[int]) -> str:
    """The text of an f32 tensor as an argument of a module's function, or as a result if it has no name."""
    kind = f"tensor<{'x'.join(map(str, sizes))}xf32> {{cuesta.strides = {list(strides)}}}"
    return f"%{name}: {kind}" if name else kind
