"""What is timed for all of its kind, in a library and in a kernel of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

#: The kernel is taken where it saves a twentieth: of shortest times, which differ by a hundredth from run to run.
WORTH = 0.95


@dataclass(frozen=True)
class Specimen:
    """One computation of a kind. `name` is that of the kind in a module, `kind` and `about` are for reports."""

    name: str
    kind: str
    about: str
    #: all that the answer may depend on beside the machine
    key: str
    inputs: Callable[[], list[torch.Tensor]]
    library: Callable[..., object]
    #: the same in the cuesta dialect
    module: str
    #: whose answer is this one's too where it is clear
    like: Specimen | None = None
    #: the kernel's time by the library's of that one, up to which and from which on it is
    clear: tuple[float, float] = (0.7, 1.2)


def random_tensor(sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """The same numbers each time; the user's generator is left where it is."""
    tensor = torch.empty_strided(sizes, strides, dtype=torch.float32, device="cpu")
    return tensor.normal_(generator=torch.Generator("cpu").manual_seed(0))


def is_plain(x: object) -> bool:
    """Whether a node's value is a tensor that a kernel may read."""
    return isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.layout == torch.strided


def argument(name: str, sizes: Sequence[int], strides: Sequence[int]) -> str:
    """A tensor of f32 as an argument of a module's function; without a name, as a result."""
    kind = f"tensor<{'x'.join(map(str, sizes))}xf32> {{cuesta.strides = {list(strides)}}}"
    return f"%{name}: {kind}" if name else kind
