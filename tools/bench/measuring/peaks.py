"""Lists the peak bandwidth and operation rates of GPUs, from their makers' data sheets: dense, without sparsity."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peaks:
    """Memory bandwidth in bytes a second, and operations a second for "half" (bf16, f16), "tf32", "f32" and "f64"."""

    bandwidth: float
    operations: dict[str, float]


def _peaks(terabytes: float, half: float, tf32: float, f32: float, f64: float) -> Peaks:
    tera = {"half": half, "tf32": tf32, "f32": f32, "f64": f64}
    return Peaks(terabytes * 1e12, {kind: value * 1e12 for kind, value in tera.items()})


#: Part of torch's name of a device → the device's peaks. The first match counts.
_DEVICES = {
    "H100 PCIe": _peaks(2.0, 756, 378, 51, 51),
    "H100 NVL": _peaks(3.9, 835, 417, 60, 60),
    "H100": _peaks(3.35, 989, 494, 67, 67),
    "H200": _peaks(4.8, 989, 494, 67, 67),
    "GH200": _peaks(4.0, 989, 494, 67, 67),
    "B200": _peaks(8.0, 2250, 1100, 75, 37),
    "A100-SXM4-40GB": _peaks(1.555, 312, 156, 19.5, 19.5),
    "A100-PCIE-40GB": _peaks(1.555, 312, 156, 19.5, 19.5),
    "A100 80GB PCIe": _peaks(1.935, 312, 156, 19.5, 19.5),
    "A100": _peaks(2.039, 312, 156, 19.5, 19.5),
}


def peaks_of(name: str) -> Peaks | None:
    """The peaks of a device, None if the table does not list it."""
    return next((peaks for part, peaks in _DEVICES.items() if part in name), None)
