"""A vector by a quantised weight on a GPU: one kernel, which reads the weight as it is stored. The interpreter of tt
runs it, with the instructions that NVIDIA's GPUs have for it and without."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta
from cuesta.dialects.tt.instructions import OF_BYTES
from cuesta.dialects.tt.interpreter.blocks import OF_BYTE
from cuesta.passes.gpu import round_products, unpack_bytes, widen_float8
from cuesta.targets import parse_target
from cuesta.tools.models.quantised import Float8Linear, Int4Linear, Int8Linear, NarrowLinear


class Torchao4(NarrowLinear):
    """Values of 4 bits from -8 on, without zeros: 8 is subtracted from integers."""

    def __init__(self, weight: Tensor, group: int) -> None:
        super().__init__()
        groups = weight.unflatten(1, (-1, group))
        scale = groups.abs().amax(2) / 7
        values = ((groups / scale[:, :, None]).round().clamp(-8, 7) + 8).to(torch.uint8).flatten(1)
        self.group = group
        self.register_buffer("scale", scale)
        self.register_buffer("packed", values[:, ::2] | values[:, 1::2] << 4)

    scale: Tensor
    packed: Tensor

    def widened(self, dtype: torch.dtype) -> Tensor:
        values = torch.stack([self.packed & 15, self.packed >> 4], 2).view(*self.scale.shape, self.group)
        return ((values.to(torch.int8) - 8).to(dtype) * self.scale[:, :, None].to(dtype)).flatten(1)


class HighFirst4(Int4Linear):
    """The first of two values in the high bits of their byte."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__(weight)
        self.packed = (self.packed & 15) << 4 | self.packed >> 4

    def widened(self, dtype: torch.dtype) -> Tensor:
        values = torch.stack([self.packed >> 4, self.packed & 15], 2).view(*self.scale.shape, -1)
        return ((values.to(dtype) - self.zero[:, :, None].to(dtype)) * self.scale[:, :, None].to(dtype)).flatten(1)


class Torchao8(NarrowLinear):
    """Values of 8 bits, with a scale for each group of 128."""

    scale: Tensor
    values: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        groups = weight.unflatten(1, (-1, 128))
        scale = groups.abs().amax(2) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("values", (groups / scale[:, :, None]).round().to(torch.int8).flatten(1))

    def widened(self, dtype: torch.dtype) -> Tensor:
        values = self.values.view(*self.scale.shape, 128).to(dtype)
        return (values * self.scale[:, :, None].to(dtype)).flatten(1)


class ByANumber(NarrowLinear):
    """Values of 8 bits with one scale for all, a number of Python's."""

    scale: Tensor
    values: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.number = float(weight.abs().max()) / 127
        self.register_buffer("scale", torch.full((len(weight),), self.number))
        self.register_buffer("values", (weight / self.number).round().to(torch.int8))

    def widened(self, dtype: torch.dtype) -> Tensor:
        return self.values.to(dtype) * self.number


class Around(torch.nn.Module):
    """What may stand around a product in a decoding step."""

    def __init__(self, layer: NarrowLinear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return residual + F.silu(self.layer(x))


def weight(n: int, k: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(n, k)


LAYERS = {
    "by a number": lambda: ByANumber(weight(264, 512)),
    "int8": lambda: Int8Linear(weight(304, 520)),
    "int4": lambda: Int4Linear(weight(264, 1024)),
    "int4, high half first": lambda: HighFirst4(weight(264, 1024)),
    "long rows": lambda: Int4Linear(weight(136, 8192)),
    "int8 in groups": lambda: Torchao8(weight(136, 1024)),
    "e4m3": lambda: Float8Linear(weight(304, 520), torch.float8_e4m3fn),
    "e5m2": lambda: Float8Linear(weight(264, 1024), torch.float8_e5m2),
    "torchao, 32": lambda: Torchao4(weight(136, 512), 32),
    "torchao, 64": lambda: Torchao4(weight(128, 512), 64),
    "torchao, 128": lambda: Torchao4(weight(136, 640), 128),
    "torchao, 256": lambda: Torchao4(weight(128, 512), 256),
}


def matches(model: torch.nn.Module, *given: Tensor) -> None:
    with torch.no_grad():
        eager = model(*given)
        actual = torch.compile(model, backend="cuesta", options={"target": "tt", "cache": False}, dynamic=False)(*given)
        exact = model.double()(*(x.double() for x in given))
    assert (actual - exact).norm() <= 1.5 * (eager - exact).norm()


@pytest.mark.parametrize("has_instructions", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_results(name: str, has_instructions: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_instructions:
        for module in (unpack_bytes, widen_float8):
            monkeypatch.setattr(module, "target_of", lambda module: parse_target("cuda:90"))
    layer = Around(LAYERS[name]()).bfloat16()
    k = layer.layer.widened(torch.bfloat16).shape[1]
    # All of one sign: what is added to values and subtracted from sums is large.
    x = torch.randn(1, k).abs().bfloat16()
    matches(layer, x, torch.randn(1, len(layer.layer.scale)).bfloat16())
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert not graph["aten_calls"]
    assert len(graph["kernels"]) == 1, graph["kernels"]


@pytest.mark.parametrize("rows", [2, 16])
@pytest.mark.parametrize(
    ("name", "launches"), [("int8", 1), ("e4m3", 1), ("int4", 2), ("int4, high half first", 2), ("int8 in groups", 2)]
)
def test_few_rows(name: str, launches: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight of whole bytes is widened in the product's kernel; one with groups by one kernel in front of it."""
    for module in (unpack_bytes, widen_float8):
        monkeypatch.setattr(module, "target_of", lambda module: parse_target("cuda:90"))
    layer = Around(LAYERS[name]()).bfloat16()
    k, n = layer.layer.widened(torch.bfloat16).shape[1], len(layer.layer.scale)
    matches(layer, torch.randn(rows, k).bfloat16(), torch.randn(rows, n).bfloat16())
    layer = Around(LAYERS[name]()).bfloat16()
    given = torch.empty(rows, k, dtype=torch.bfloat16), torch.empty(rows, n, dtype=torch.bfloat16)
    made = cuesta.compile_for(layer, given, target="cuda:90", options={"gemm": "kernel"})
    assert not made.aten_calls
    assert len(made.kernels) == launches, made.kernels


def test_parts_of_a_long_row_are_widened_in_the_products_kernel() -> None:
    layer = Int8Linear(weight(2048, 8192)).bfloat16()
    made = cuesta.compile_for(layer, (torch.empty(4, 8192, dtype=torch.bfloat16),), target="cuda:90")
    assert not made.aten_calls
    assert len(made.kernels) == 2, "the parts' products, and what adds them up"


def test_few_floats_of_8_bits() -> None:
    """No thread has four of them, which the instruction takes."""
    given = (torch.zeros(8).to(torch.float8_e4m3fn),)
    (kernel,) = cuesta.compile_for(lambda x: x.float() + 1, given, target="cuda:90").kernels
    assert "e4m3x2" not in kernel.text


def test_a_norm_joins_the_product_that_sees_its_row_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The norm's mean, to which an epsilon is added, is rounded by an instruction: so the kernel multiplies and adds by
    one."""
    monkeypatch.setattr(round_products, "target_of", lambda module: parse_target("cuda:90"))

    class Normed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = torch.nn.Linear(1024, 1024, bias=False), torch.nn.RMSNorm(1024)
            self.layer = Int4Linear(weight(2048, 1024))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            x = x + self.first(x)
            return x, self.layer(self.norm(x))

    model, x = Normed().bfloat16(), torch.randn(1, 1024).bfloat16()
    with torch.no_grad():
        eager = model(x)
        actual = torch.compile(model, backend="cuesta", options={"target": "tt", "cache": False}, dynamic=False)(x)
        exact = model.double()(x.double())
    for own, expected, reference in zip(actual, eager, exact, strict=True):
        assert (own - reference).norm() <= 1.5 * (expected - reference).norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert len(graph["kernels"]) == 2, graph["kernels"]
    _, kernel = cuesta.compile_for(Normed().bfloat16(), (x,), target="cuda:90").kernels
    assert "mul.rn.f32 $0, $1, $2;" in kernel.text
    assert kernel.assembly.count("fma.rn.f32") >= 128, "one for each value that a thread has"


def test_instructions_of_a_gated_layer() -> None:
    """Gate and up with what joins them, and down with its residual: two kernels, with an instruction for each byte."""

    class Gated(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = (Int4Linear(weight(1024, 512)) for _ in range(2))
            self.down = Int4Linear(weight(512, 1024))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.down(F.silu(self.gate(x)) * self.up(x))

    model, x = Gated().bfloat16(), torch.randn(1, 512).bfloat16()
    matches(Gated().bfloat16(), x)
    made = cuesta.compile_for(model, (x,), target="cuda:90")
    assert not made.aten_calls
    assert len(made.kernels) == 2
    assert not any(kernel.spills for kernel in made.kernels)


_STEPS: dict[str, Callable[..., int]] = {
    "mov.b32": lambda x: x,
    "xor.b32": operator.xor,
    "and.b32": operator.and_,
    "shr.b32": operator.rshift,
    "prmt.b32": lambda x, rest, places: _picked(x, rest, places),
    "cvt.f32.f16": lambda x: int(np.uint16(x).view(np.float16).astype(np.float32).view(np.uint32)),
    "cvt.rn.f16x2.e4m3x2": lambda x: _wide(x, torch.float8_e4m3fn),
    "cvt.rn.f16x2.e5m2x2": lambda x: _wide(x, torch.float8_e5m2),
}


def _picked(x: int, rest: int, places: int) -> int:
    both = x.to_bytes(4, "little") + rest.to_bytes(4, "little")
    return int.from_bytes(bytes(both[places >> 4 * i & 7] for i in range(4)), "little")


def _wide(word: int, dtype: torch.dtype) -> int:
    halves = torch.tensor([word & 255, word >> 8], dtype=torch.uint8).view(dtype).half()
    return int.from_bytes(halves.numpy().tobytes(), "little")


def _emulated(text: str, word: int) -> list[int]:
    """What instructions of PTX make of a word of four bytes."""
    known = {"$4": word}
    for name, operands in re.findall(r"([a-z]\S+) ([^;]+);", re.sub(r"\.reg [^;]+;", "", text)):
        to, *rest = re.split(r", (?![^{]*})", operands)
        value = _STEPS[name](*(known[x] if x in known else int(x, 0) for x in rest))
        if to.startswith("{"):
            low, high = to.strip("{}").split(", ")
            known |= {low: value & 0xFFFF, high: value >> 16}
        else:
            known[to] = value
    return [known[f"${i}"] for i in range(4)]


@pytest.mark.parametrize("text", OF_BYTES)
def test_what_the_instructions_do(text: str) -> None:
    """The interpreter's functions do what the text says."""
    for first in range(0, 256, 4):
        values = np.arange(first, first + 4, dtype=np.uint8)
        found = np.array(_emulated(text, int.from_bytes(values.tobytes(), "little")), np.uint32).view(np.float32)
        np.testing.assert_array_equal(found, OF_BYTE[OF_BYTES[text]](values))
