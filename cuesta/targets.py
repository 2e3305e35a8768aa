"""Names the targets that code is made for: a kind of machine and, for GPUs, its architecture.

    parse_target("cuda:90")    Target(kind="cuda", arch="90")
    str(target)                "cuda:90"

`tt` is Triton IR that a numpy interpreter runs on CPU tensors, so that every level of the GPU lowering can be tested
without a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.errors import OptionError

#: Kind → its architectures ("" for a kind that has no further choice) → bytes of shared memory that a block may have.
#: CUDA's architectures are compute capabilities.
_ARCHITECTURES: dict[str, dict[str, int]] = {
    "cpu": {"": 0},
    "cuda": {
        "80": 166912,
        "86": 101376,
        "87": 166912,
        "89": 101376,
        "90": 232448,
        "100": 232448,
        "103": 232448,
        "120": 101376,
    },
    "hip": {"gfx942": 65536, "gfx1100": 65536},
    "xpu": {"": 131072},
    "tt": {"": 0},
}
#: Architectures whose warps have 64 threads.
_WIDE_WARPS = ("gfx942",)

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
        return 64 if self.arch in _WIDE_WARPS else 32

    @property
    def shared_memory(self) -> int:
        """Bytes of shared memory that a block may have; 0 where there is none."""
        return _ARCHITECTURES[self.kind][self.arch]

    @property
    def device_type(self) -> str:
        """torch's device type of the tensors."""
        return {"cpu": "cpu", "tt": "cpu", "cuda": "cuda", "hip": "cuda", "xpu": "xpu"}[self.kind]


CPU = Target("cpu")


def list_targets() -> list[str]:
    """The text of every target."""
    return [
        f"{kind}:{arch}" if arch else kind for kind, architectures in _ARCHITECTURES.items() for arch in architectures
    ]


def parse_target(text: str) -> Target:
    """The target that `text` names. Raises OptionError, which lists the valid ones, for any other text."""
    kind, colon, arch = text.partition(":")
    if arch not in _ARCHITECTURES.get(kind, ()) or (colon and not arch):
        raise OptionError(f"unknown target {text!r}; the targets are {', '.join(list_targets())}")
    return Target(kind, arch)
