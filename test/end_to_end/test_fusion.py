"""How many kernels a graph becomes, and what is left to ATen, as `cuesta.report()` tells."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

import cuesta
from cuesta.tools.models import Built, find_model

pytestmark = pytest.mark.usefixtures("cuesta_only")

# What a transformer may leave to ATen. Everything else in it is ours to compile.
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
ATTENTION = {
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
}
EMBEDDING_GRADIENT = {"embedding_dense_backward"}
RANDOM = {"rand", "rand_like", "randn", "bernoulli", "bernoulli_", "native_dropout", "native_dropout_backward"}
ALLOWED = PRODUCTS | ATTENTION | EMBEDDING_GRADIENT | RANDOM


def graphs() -> list[dict[str, Any]]:
    """Every graph compiled since Dynamo's last reset, which the fixtures do before each test."""
    import cuesta

    found: list[dict[str, Any]] = cuesta.report().as_dict()["graphs"]
    return found


def aten_calls(found: list[dict[str, Any]]) -> Counter[str]:
    """How often each op is called in ATen, by its name without namespace and overload."""
    calls: Counter[str] = Counter()
    for graph in found:
        for call in graph["aten_calls"]:
            name = call["op"].replace("::", ".").removeprefix("aten.")
            calls[name.split(".")[0]] += call["count"]
    return calls


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


def bias_gelu_tanh(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias, approximate="tanh")


def softmax(x: Tensor, _: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def scaled_masked_softmax(x: Tensor, bias: Tensor) -> Tensor:
    return torch.softmax(x * 0.125 + bias, -1)


def layer_norm_and_sum(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """As in a transformer with the norm first: the sum goes on beside the normed one."""
    total = x + weight
    return F.layer_norm(total, (x.shape[-1],), weight), total


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def torch_rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def ten_ops(x: Tensor, bias: Tensor) -> Tensor:
    z = torch.sigmoid(x * 1.5 + bias)
    return torch.relu(z - 0.25) * torch.exp(-z) + torch.abs(x)


@pytest.mark.parametrize(
    "f",
    [
        bias_gelu,
        bias_gelu_tanh,
        softmax,
        scaled_masked_softmax,
        layer_norm_and_sum,
        rms_norm,
        torch_rms_norm,
        ten_ops,
    ],
    ids=lambda f: f.__name__,
)
def test_one_kernel(f: Callable[[Tensor, Tensor], Any]) -> None:
    check_one_kernel(f, torch.randn(64, 96), torch.randn(96))


def test_residual_and_layer_norm_are_one_kernel() -> None:
    def residual_layer_norm(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x + residual, (96,), weight, bias)

    check_one_kernel(residual_layer_norm, *(torch.randn(size) for size in ((64, 96), (64, 96), (96,), (96,))))


def test_the_gradients_of_group_norm_are_one_kernel() -> None:
    x, weight, bias = torch.randn(8, 64, 16, 16), torch.randn(64), torch.randn(64)
    leaves = [v.requires_grad_() for v in (x, weight, bias)]
    torch.compile(F.group_norm, backend="cuesta")(x, 8, weight, bias).square().sum().backward()
    _, backward = graphs()
    assert [kernel["uses"] for kernel in backward["kernels"]] == [1], backward["kernels"]
    assert backward["aten_calls"] == []
    assert all(v.grad is not None for v in leaves)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_is_one_kernel(reduction: str) -> None:
    targets = torch.randint(50, (64,))
    targets[3] = -100  # ignored
    check_one_kernel(lambda x, t: F.cross_entropy(x, t, reduction=reduction), torch.randn(64, 50), targets)


def check_one_kernel(f: Callable[..., Any], *arguments: Tensor) -> None:
    with torch.no_grad():
        assert_close(torch.compile(f, backend="cuesta", fullgraph=True)(*arguments), f(*arguments))
    (graph,) = graphs()
    assert [kernel["uses"] for kernel in graph["kernels"]] == [1], graph["kernels"]
    assert graph["launches"] == 1
    assert graph["aten_calls"] == []


@functools.cache
def graphs_of(build: Callable[..., Built], layers: int, training: bool, dropout: float = 0.0) -> list[dict[str, Any]]:
    """The graphs of a model, which several tests look at: compiled once."""
    torch._dynamo.reset()
    run(build(layers, dropout), training)
    return graphs()


def run(built: Built, training: bool) -> None:
    module = built.module.train(training)

    def objective(inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
        return built.loss(module(**inputs), targets)

    with torch.set_grad_enabled(training):
        loss = torch.compile(objective, backend="cuesta", fullgraph=True)(built.inputs, built.targets)
    if training:
        loss.backward()


def small_bert(layers: int, dropout: float = 0.0) -> Built:
    return find_model("bert").make(layers=layers, dropout=dropout)


def small_gpt2(layers: int, dropout: float = 0.0) -> Built:
    return find_model("gpt2").make(layers=layers, dropout=dropout)


MODELS = pytest.mark.parametrize("build", [small_bert, small_gpt2], ids=["bert", "gpt2"])


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@MODELS
def test_a_transformer_leaves_little_to_aten(build: Callable[..., Built], training: bool, dropout: float) -> None:
    found = graphs_of(build, 2, training, dropout)
    assert len(found) == (2 if training else 1)
    assert not [graph["fallback"] for graph in found if graph["fallback"]]
    calls = aten_calls(found)
    assert set(calls) <= ALLOWED, f"left to ATen: {sorted(set(calls) - ALLOWED)}"
    if not training:
        assert not set(calls) & (EMBEDDING_GRADIENT | RANDOM)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@MODELS
def test_more_layers_are_no_more_kernels(build: Callable[..., Built], training: bool) -> None:
    def kernels(layers: int) -> list[int]:
        return [len(graph["kernels"]) for graph in graphs_of(build, layers, training)]

    two = kernels(2)
    assert kernels(3) == two


def test_more_layers_are_more_launches() -> None:
    """So that the test above does not pass on a report that lost half of the graph."""

    def launches(layers: int) -> int:
        (graph,) = graphs_of(small_bert, layers, False)
        assert sum(kernel["uses"] for kernel in graph["kernels"]) == graph["launches"]
        return int(graph["launches"])

    two, three, four = launches(2), launches(3), launches(4)
    assert four - three == three - two > 0


def test_every_call_into_aten_has_a_reason() -> None:
    for graph in graphs_of(small_bert, 2, True):
        for call in graph["aten_calls"]:
            assert call["count"] >= 1
            assert call["reason"]


def test_a_report_as_text_names_kernels_and_calls() -> None:
    import cuesta

    run(small_bert(2), False)
    text = str(cuesta.report())
    (graph,) = graphs()
    for kernel in graph["kernels"]:
        assert kernel["name"] in text
    for call in graph["aten_calls"]:
        assert call["op"] in text


def test_a_report_begins_anew_after_a_reset() -> None:
    with torch.no_grad():
        torch.compile(bias_gelu, backend="cuesta")(torch.randn(4, 8), torch.randn(8))
        assert len(graphs()) == 1
        torch.compile(softmax, backend="cuesta")(torch.randn(4, 8), torch.randn(8))
        assert len(graphs()) == 2
        torch._dynamo.reset()
        torch.compile(softmax, backend="cuesta")(torch.randn(4, 8), torch.randn(8))
    assert len(graphs()) == 1


def test_a_sum_of_windows_reads_what_is_in_memory() -> None:
    """Each pixel gathers from its windows in one kernel, which widens what it has read."""
    torch._dynamo.reset()
    x = torch.randn(2, 4 * 9, 64).bfloat16()

    def fold(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.fold(x, (64, 1), (9, 1), padding=(4, 0))

    compiled = torch.compile(fold, backend="cuesta", options={"target": "tt"})
    torch.testing.assert_close(compiled(x).double(), fold(x.double()), atol=0.1, rtol=0.01)
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert [kernel["name"] for kernel in graph["kernels"]] == ["col2im"]
    assert graph["arena_bytes"] == 0
