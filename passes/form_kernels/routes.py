"""How the host program reaches an ATen overload."""

from __future__ import annotations

from collections.abc import Sequence

#: Overloads with a typed entry of torch's C shim that writes into memory of ours.
OUT_ENTRIES = {
    "aten.mm.default": "aoti_torch_cpu_mm_out",
    "aten.bmm.default": "aoti_torch_cpu_bmm_out",
    "aten.addmm.default": "aoti_torch_cpu_addmm_out",
    "aten.baddbmm.default": "aoti_torch_cpu_baddbmm_out",
}


def choose_route(overload: str, args: str, dtypes: Sequence[str]) -> str:
    """ "out", "shim" or "python", as the host dialect names them."""
    if overload in OUT_ENTRIES:
        return "out"
    return "python"
