"""Option `freezing`: convolutions by weights that oneDNN has packed, with what follows in the same call."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

import cuesta
from cuesta.driver.freezing import packed_convolutions
from cuesta.driver.freezing.frozen_convolutions import freeze_convolutions
from cuesta.driver.freezing.packed_convolutions import ACTIVATIONS

pytestmark = pytest.mark.skipif(not packed_convolutions.can_pack(), reason="needs a torch with oneDNN")

ALONE, ADDING = "cuesta.packed_convolution.default", "cuesta.packed_convolution_add.default"
ADDING_IN_PLACE = "cuesta.packed_convolution_add_.default"


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


class Block(nn.Module):
    """A residual block with a projection, and a convolution in groups behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(24, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32)
        self.second, self.norm2 = nn.Conv2d(32, 48, 1), nn.BatchNorm2d(48)
        self.project, self.norm3 = nn.Conv2d(24, 48, 1, stride=2, bias=False), nn.BatchNorm2d(48)
        self.grouped = nn.Conv2d(48, 48, 5, padding=4, dilation=2, groups=48)
        self.norm4 = nn.BatchNorm2d(48, affine=False)
        for norm in (self.norm, self.norm2, self.norm3, self.norm4):
            norm.running_mean = torch.randn(norm.num_features)
            norm.running_var = torch.rand(norm.num_features) * 4 + 0.05
            if norm.affine:
                nn.init.normal_(norm.weight, 1.0, 0.3)
                nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.first(x)))
        y = F.relu(self.norm2(self.second(y)) + self.norm3(self.project(x)))
        return F.hardswish(self.norm4(self.grouped(y)))


def frozen(
    module: Callable[[Tensor], Tensor], dynamic: bool | None = None, gemm: str = "library"
) -> Callable[[Tensor], Tensor]:
    """`gemm` says who computes products, which else is measured."""
    options: dict[str, Any] = {"freezing": True, "cache": False, "gemm": gemm}
    compiled = torch.compile(module, backend="cuesta", options=options, dynamic=dynamic)

    def call(x: Tensor) -> Tensor:
        with torch.no_grad():
            return compiled(x)

    return call


def calls() -> dict[str, int]:
    """How often the last graph calls each overload."""
    return {call["op"]: call["count"] for call in cuesta.report().graphs[-1].aten_calls}


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_what_follows_is_in_the_call(memory_format: torch.memory_format) -> None:
    block = Block().eval()
    call = frozen(block)
    for _ in range(2):
        x = torch.randn(2, 24, 20, 20).contiguous(memory_format=memory_format)
        with torch.no_grad():
            eager, exact = block(x), copy.deepcopy(block).double()(x.double())
        found = call(x)
        assert found.stride() == eager.stride()
        assert (found - exact).norm() <= 2 * (eager - exact).norm()
    (graph,) = cuesta.report().graphs
    assert graph.frozen == "weights of convolutions: 4 packed by oneDNN"
    assert calls() == {ALONE: 3, ADDING_IN_PLACE: 1} and {c["route"] for c in graph.aten_calls} == {"shim"}
    # Copies alone, into channels_last and back, and none where the images come so.
    assert graph.launches == (0 if memory_format == torch.channels_last else 3)


def test_what_changes_is_packed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[torch.Size] = []
    pack = packed_convolutions.pack

    def noted(weight: Tensor, *rest: Any) -> Tensor:
        packed.append(weight.shape)
        return pack(weight, *rest)

    monkeypatch.setattr(packed_convolutions, "pack", noted)
    block, x = Block().eval(), torch.randn(2, 24, 20, 20)
    call = frozen(block)

    def check(made: int) -> None:
        with torch.no_grad():
            torch.testing.assert_close(call(x), block(x), rtol=1e-4, atol=1e-4)
        assert len(packed) == made

    check(4)
    check(4)
    with torch.no_grad():
        block.second.weight.mul_(2)
        check(5)
        block.second.get_parameter("bias").add_(1)
        check(6)
        assert block.norm4.running_var is not None
        block.norm4.running_var.mul_(3)
        check(7)
        block.norm.bias = nn.Parameter(block.norm.bias + 1)
    call(x)
    assert packed[7] == (32, 24, 3, 3)
    block.load_state_dict(Block().state_dict())
    check(len(packed) + 4)


def test_one_program_for_all_batches() -> None:
    block = Block().eval()
    call = frozen(block, dynamic=True)
    for batch in (2, 5, 3):
        x = torch.randn(batch, 24, 20, 20)
        torch.testing.assert_close(call(x), block(x).detach(), rtol=1e-4, atol=1e-4)
    (graph,) = cuesta.report().graphs
    assert calls() == {ALONE: 3, ADDING_IN_PLACE: 1} and graph.specialised is None


def test_products_stay_where_kernels_compute_them_and_where_rows_are_few() -> None:
    block, few = Block().eval(), nn.Conv2d(24, 48, 1)
    torch.testing.assert_close(frozen(block, gemm="kernel")(x := torch.randn(2, 24, 20, 20)), block(x).detach())
    assert calls() == {ALONE: 2, ADDING_IN_PLACE: 1}
    torch.testing.assert_close(frozen(few)(x := torch.randn(1, 24, 8, 8)), few(x).detach())
    assert not set(calls()) & {ALONE, ADDING, ADDING_IN_PLACE}
    frozen(few)(torch.randn(1, 24, 13, 5))
    assert calls() == {ALONE: 1}


@pytest.mark.parametrize(("channels", "rows", "packed"), [(72, 10, True), (71, 10, False), (72, 8, False)])
def test_where_kernels_compute_products_those_that_widen_images_are_packed(
    channels: int, rows: int, packed: bool
) -> None:
    module = nn.Sequential(nn.Conv2d(24, channels, 1), nn.BatchNorm2d(channels), nn.ReLU()).eval()
    x = torch.randn(1, 24, rows, 8)
    torch.testing.assert_close(frozen(module, gemm="kernel")(x), module(x).detach())
    assert (ALONE in calls()) == packed


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations(activation: Callable[[Tensor], Tensor]) -> None:
    convolution, x = nn.Conv2d(16, 24, 3), torch.randn(2, 16, 9, 9)
    found = frozen(lambda x: activation(convolution(x)))(x)
    torch.testing.assert_close(found, activation(convolution(x)).detach())
    assert calls() == {ALONE: 1} and cuesta.report().graphs[-1].launches == 2


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_behind_a_sum_relu_alone_is_in_the_call(activation: Callable[[Tensor], Tensor]) -> None:
    convolution, x = nn.Conv2d(16, 16, 3, padding=1), torch.randn(2, 16, 9, 9)
    found = frozen(lambda x: activation(convolution(x) + x))(x)
    torch.testing.assert_close(found, activation(convolution(x) + x).detach())
    assert calls() == {ADDING_IN_PLACE: 1}  # over a copy of x in channels_last
    kernels = [op for kernel in cuesta.report().graphs[-1].kernels for op in kernel["ops"]]
    assert "add" not in kernels and (set(kernels) == {"copy"}) == (activation is torch.ops.aten.relu.default)


class Residuals(nn.Module):
    """Sums with what a convolution gave, what a kernel wrote, what is read again, and what the convolution reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(6))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a, b, c, d, e, f = self.layers
        first = a(x)
        second = F.relu(b(first.tanh()) + first)
        third = c(second) + second
        fourth = d(first.sin()) + third.exp()
        fifth = e(fourth) + fourth.cos()
        return f(fifth.sigmoid()) + fifth, fourth


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_sum_is_written_over_what_dies_in_it(dynamic: bool, memory_format: torch.memory_format) -> None:
    module = Residuals().eval()
    call = frozen(module, dynamic=dynamic)
    for batch in (2, 3, 2):
        x = torch.randn(batch, 16, 12, 12).contiguous(memory_format=memory_format)
        kept = x.clone()
        for found, expected in zip(call(x), module(x), strict=True):
            torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-4)
            assert found.stride() == expected.stride()
        torch.testing.assert_close(x, kept, rtol=0, atol=0)
    # The third reads what it adds to. In channels_last the last and the fourth are returned, in buffers that they fill.
    assert calls() == {ALONE: 1, ADDING: 1, ADDING_IN_PLACE: 4}


class ReadTwice(nn.Module):
    """A norm and an activation whose operands something else reads as well."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(16, 24, 3), nn.BatchNorm2d(24).eval(), nn.Conv2d(24, 24, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y, z = self.first(x), self.second(self.first(x).relu())
        return self.norm(y) + y, z.relu() + z.sigmoid(), z + z


def test_what_something_else_reads_stays() -> None:
    module, x = ReadTwice(), torch.randn(2, 16, 9, 9)
    with torch.no_grad():
        torch.testing.assert_close(frozen(module)(x), module(x), rtol=1e-4, atol=1e-4)
    assert calls() == {ALONE: 3} and len(cuesta.report().graphs[-1].kernels) >= 2


def test_sums_of_other_sizes_stay() -> None:
    convolution, x, column = nn.Conv2d(16, 24, 3), torch.randn(2, 16, 9, 9), torch.randn(24, 1, 1)

    def scaled(x: Tensor) -> Tensor:
        return torch.add(convolution(x) + column, convolution(x * 2), alpha=3).relu()

    torch.testing.assert_close(frozen(scaled)(x), scaled(x).detach(), rtol=1e-4, atol=1e-4)
    assert calls() == {ALONE: 2}


def test_a_norm_in_training_is_not_folded() -> None:
    module, x = nn.Sequential(nn.Conv2d(16, 24, 3), nn.BatchNorm2d(24)), torch.randn(2, 16, 9, 9)
    twin = copy.deepcopy(module)
    call = frozen(module)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(call(x), twin(x), rtol=1e-4, atol=1e-4)
    assert calls() == {ALONE: 1}
    torch.testing.assert_close(module.state_dict(), twin.state_dict())


def test_others_stay_as_they_are() -> None:
    transposed, flat, half = nn.ConvTranspose2d(16, 8, 3), nn.Conv1d(16, 8, 3), nn.Conv2d(16, 8, 3).bfloat16()
    plain = nn.Conv2d(16, 8, 3)

    def others(x: Tensor) -> tuple[Tensor, ...]:
        computed = F.conv2d(x, plain.weight * 2) + F.conv2d(x, plain.weight, x[0, :8, 0, 0])
        return transposed(x), flat(x[:, :, 0]), half(x.bfloat16()), computed

    x = torch.randn(2, 16, 9, 9)
    with torch.no_grad():
        torch.testing.assert_close(frozen(others)(x), others(x))  # type: ignore[arg-type]
    assert set(calls()) == {"aten.convolution.default"}


def test_where_gradients_are_needed_weights_stay_as_they_are() -> None:
    block = Block()
    compiled = torch.compile(block, backend="cuesta", options={"freezing": True, "cache": False})
    compiled(torch.randn(2, 24, 20, 20)).sum().backward()
    assert all(g.frozen is not None and g.frozen.startswith("nothing") for g in cuesta.report().graphs)


def test_a_frozen_graph_runs_op_by_op() -> None:
    """As in the first tier of `tiered`; its new arguments have names that nodes of the graph had."""

    def residual(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        y = torch.convolution(x, first, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1).relu()
        return (torch.convolution(y, second, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1) + y).relu()

    inputs = [torch.randn(2, 16, 9, 9), torch.randn(24, 16, 3, 3), torch.randn(24, 24, 3, 3)]
    with torch.no_grad():
        gm = make_fx(residual, tracing_mode="fake")(*inputs)
    placeholders = gm.graph.find_nodes(op="placeholder")
    frozen = freeze_convolutions(gm, {placeholders[i]: i for i in (1, 2)}, products=True)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    names = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
    assert names == [node.name for node in gm.graph.find_nodes(op="placeholder")]
    found = gm(*inputs, *(argument.made(inputs) for argument in frozen))
    torch.testing.assert_close(found, residual(*inputs), rtol=1e-4, atol=1e-4)


def test_what_is_packed_goes_with_its_argument() -> None:
    weight, bias = torch.randn(8, 8, 3, 3), torch.randn(8)
    held = packed_convolutions.pack(weight, bias, [1, 1], [1, 1], [1, 1], 1, None)
    alive = weakref.ref(bias)
    del bias
    assert alive() is not None
    del held
    assert alive() is None


@pytest.mark.parametrize("row_major", [True, False])
def test_the_ops_are_as_their_fake_kernels_say(row_major: bool) -> None:
    weight, bias, x = torch.randn(8, 4, 3, 3), torch.randn(8), torch.randn(2, 8, 7, 7)
    places = ([1, 1], [2, 2], [1, 1])
    held = packed_convolutions.pack(weight, bias, *places, 2, None)
    rest = (held, True, [8, 4, 3, 3], *places, 2, "relu", row_major)
    expected = F.conv2d(x, weight, bias, stride=2, padding=1, groups=2)
    torch.testing.assert_close(packed_convolutions.packed_convolution(x, *rest), expected.relu())
    other = torch.randn_like(expected)
    found = packed_convolutions.packed_convolution_add(x, other, *rest)
    torch.testing.assert_close(found, (expected + other).relu())
    over = other.clone()
    packed_convolutions.packed_convolution_add_(x, over, *rest)
    torch.testing.assert_close(over, found)
    for op, args in (
        (torch.ops.cuesta.packed_convolution.default, (x, *rest)),
        (torch.ops.cuesta.packed_convolution_add.default, (x, other, *rest)),
        (torch.ops.cuesta.packed_convolution_add_.default, (x, other, *rest)),
    ):
        torch.library.opcheck(op, args, test_utils=("test_schema", "test_faketensor"))
