"""Names the targets that code is made for: a kind of machine and, for GPUs, its architecture.

    parse_target("cuda:90")    Target(kind="cuda", arch="90")
    str(target)                "cuda:90"

`tt` is Triton IR that a numpy interpreter runs on CPU tensors, so that every level of the GPU lowering can be tested
without a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.errors import OptionError

#: Kind → its architectures; none for a kind that has no further choice. CUDA's are compute capabilities.
_ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "cpu": (),
    "cuda": ("80", "86", "87", "89", "90", "100", "103", "120"),
    "hip": ("gfx942", "gfx1100"),
    "xpu": (),
    "tt": (),
}

#: torch's numbers of device types (c10::DeviceType), which it keeps stable.
DEVICE_CODES = {"cpu": 0, "cuda": 1, "meta": 14, "xpu": 12}


@dataclass(frozen=True)
class Target:
    """A kind of machine, and its architecture ("" if the kind has only one)."""

    kind: str
    arch: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.arch}" if self.arch else self.kind

    @property
    def gpu(self) -> bool:
        """Whether kernels are compiled by Triton and launched over a grid."""
        return self.kind != "cpu"

    @property
    def warp_size(self) -> int:
        """Threads of a warp; 1 on CPU."""
        if not self.gpu:
            return 1
        return 64 if self.arch == "gfx942" else 32

    @property
    def device_type(self) -> str:
        """torch's device type of the tensors."""
        return {"cpu": "cpu", "tt": "cpu", "cuda": "cuda", "hip": "cuda", "xpu": "xpu"}[self.kind]


CPU = Target("cpu")


def list_targets() -> list[str]:
    """The text of every target."""
    return [
        f"{kind}:{arch}" if arch else kind
        for kind, architectures in _ARCHITECTURES.items()
        for arch in architectures or ("",)
    ]


def parse_target(text: str) -> Target:
    """The target that `text` names. Raises OptionError, which lists the valid ones, for any other text."""
    kind, colon, arch = text.partition(":")
    architectures = _ARCHITECTURES.get(kind)
    if architectures is None or (arch not in architectures if architectures else colon):
        raise OptionError(f"unknown target {text!r}; the targets are {', '.join(list_targets())}")
    return Target(kind, arch)
