"""Kernels of a GPU's profile: the call that each belongs to, what it computes and moves, how near it is to the peak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._C._autograd import DeviceType

import cuesta
from cuesta.tools.bench.measuring.aten_costs import AtenCall, Cost, cost
from cuesta.tools.bench.measuring.kernels import by_kernel, launches_of, rows_of
from cuesta.tools.bench.measuring.peaks import peaks_of
from cuesta.tools.bench.reporting import gpu_tables as tables

HALF, SINGLE = "c10::BFloat16", "float"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (AtenCall("aten::mm", [[4, 5], [5, 6]], [HALF] * 2, [None] * 2), Cost(240, 2 * (20 + 30 + 24), "half")),
        (AtenCall("aten::bmm", [[3, 4, 5], [3, 5, 6]], [SINGLE] * 2, []), Cost(720, 4 * 3 * (20 + 30 + 24), "f32")),
        (
            AtenCall("aten::addmm", [[6], [4, 5], [5, 6], [], []], [HALF] * 3, []),
            Cost(240, 2 * (20 + 30 + 24 + 6), "half"),
        ),
        (
            AtenCall(
                "aten::cudnn_convolution", [[2, 3, 8, 8], [4, 3, 3, 3]], [SINGLE] * 2, [[1, 1], [2, 2], [1, 1], 1]
            ),
            Cost(2 * 2 * 4 * 16 * 27, 4 * (2 * 3 * 64 + 4 * 27 + 2 * 4 * 16), "tf32"),
        ),
        (
            AtenCall(
                "aten::_scaled_dot_product_flash_attention", [[2, 3, 8, 16]] * 3, [HALF] * 3, [None] * 3 + [0.0, True]
            ),
            Cost(2 * 2 * 2 * 3 * 8 * 8 * 16, 2 * 4 * 2 * 3 * 8 * 16, "half"),
        ),
        (AtenCall("aten::add", [[4], [4]], [HALF] * 2, []), None),
        (AtenCall("aten::mm", [], [], []), None),
    ],
)
def test_costs_of_library_calls(call: AtenCall, expected: Cost | None) -> None:
    assert cost(call) == expected


class Event:
    """An event as kineto gives it."""

    def __init__(
        self, name: str, start: int, length: int, op: int = 0, link: int = 0, annotation: bool = False
    ) -> None:
        self.told = {
            "name": name,
            "start_ns": start,
            "duration_ns": length,
            "device_type": DeviceType.CPU if op else DeviceType.CUDA,
            "correlation_id": op,
            "linked_correlation_id": link,
            "is_user_annotation": annotation,
            "shapes": [[1024, 1024], [1024, 1024]],
            "dtypes": [HALF, HALF],
            "concrete_inputs": [None, None],
        }

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: self.told[name]


def test_rows_of_a_profile() -> None:
    """Two calls: a kernel of the forward graph, a matrix product in two kernels, a kernel of the backward graph."""
    events = [Event("aten::mm", 0, 5, op=7), Event("aten::mm", 100, 5, op=8), Event("cudaLaunchKernel", 0, 1, op=3)]
    for start, op in ((0, 7), (100, 8)):
        events += [
            Event("bench:forward", start, 60, annotation=True),
            Event("mul", start, 10_000),
            Event("gemm", start + 1, 38_000, link=op),
            Event("splitk", start + 2, 12_000, link=op),
            Event("mul", start + 3, 20_000),
        ]
    graphs = [
        {"kernels": [{"name": "mul", "uses": 1, "ops": ["mul", "add"], "bytes": 1000}]},
        {"kernels": [{"name": "mul", "uses": 1, "ops": ["mul"], "bytes": 3000}]},
    ]
    launches = launches_of(events)
    assert len(launches) == 8
    product, backward, forward = rows_of(launches, 2, graphs)
    assert (product.by, product.count, product.operations) == ("aten::mm", 2, 2 * 1024**3)
    assert product.seconds == pytest.approx(50e-6)
    assert product.kernels == pytest.approx({"gemm": 76e-6, "splitk": 24e-6})
    assert (backward.about, backward.bytes, backward.count) == ("mul", 3000, 1)
    assert (forward.about, forward.bytes, forward.count) == ("mul + add", 1000, 1)
    assert forward.seconds == pytest.approx(10e-6)
    peaks = peaks_of("NVIDIA H100 80GB HBM3")
    assert peaks is not None
    told = product.as_dict(peaks)
    assert told["operations_share"] == pytest.approx(2 * 1024**3 / 50e-6 / 989e12)
    assert told["bandwidth_share"] == pytest.approx(3 * 2 * 1024**2 / 50e-6 / 3.35e12)
    assert [(row.name, row.count) for row in by_kernel(launches, 2)] == [("gemm", 1), ("mul", 2), ("splitk", 1)]
    printed = tables.kernels_table({"rows": [told]}).rows
    assert printed[0][:4] == ["gemm", "50 µs", "100.0%", "2"]


def test_cuesta_tells_the_bytes_of_a_kernel() -> None:
    """What it reads and what it writes; a row that is repeated counts as a row, a table by what is taken of it."""

    def moved(function: Callable[..., torch.Tensor], *arguments: torch.Tensor) -> list[int]:
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(function, backend="cuesta")(*arguments)
        graph = cuesta.report().as_dict()["graphs"][-1]
        return [kernel["bytes"] for kernel in graph["kernels"]]

    x, row, table = torch.ones(8, 100), torch.ones(100), torch.ones(1000, 100)
    assert moved(lambda x, row: x.exp() + row.expand(8, 100), x, row) == [4 * (800 + 100 + 800)]
    assert moved(lambda x: x.exp_(), x) == [4 * (800 + 800)]
    taken = torch.arange(8)
    assert moved(lambda table, i: table[i] + 1, table, taken)[-1] == 8 * 8 + 4 * (800 + 800)  # after a range check


def test_peaks_by_name() -> None:
    names = ("NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA H200")
    assert [peaks.bandwidth if (peaks := peaks_of(n)) else None for n in names] == [2.0e12, 3.35e12, 4.8e12]
    assert peaks_of("Radeon") is None


def test_kernels_far_from_their_bound_are_listed_worst_first() -> None:
    def row(name: str, micros: float, share: float | None, by: str = "cuesta", count: int = 1) -> dict[str, Any]:
        return {"name": name, "by": by, "seconds": micros * 1e-6, "count": count, "bandwidth_share": share}

    rows = [row("near", 100, 0.6), row("far", 100, 0.3), row("library", 100, 0.1, "aten::mm"), row("short", 4, 0.2)]
    worse = [row("worse", 900, 0.01), row("many short ones", 300, 0.1, count=100), row("unknown", 100, None)]
    cases = {"a": {"contenders": {"cuesta": {"rows": rows}}}, "b": {"contenders": {"cuesta": {"rows": worse}}}}
    table = tables.far_from_bound(cases)
    assert list(table.header) == ["case", "time", "bound", "times it", "count", "kernel"]
    assert [(line[0], line[-1]) for line in table.rows] == [("b, cuesta", "worse"), ("a, cuesta", "far")]
    assert table.rows[0][3] == "75.0"
