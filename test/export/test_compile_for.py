"""cuesta.compile_for: a model's kernels for GPUs that this machine does not have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cuesta
from cuesta.errors import OptionError, Unsupported
from cuesta.reports import progress


class Block(nn.Module):
    """What a torch without CUDA cannot do with fake tensors on a GPU is in here: indexing, contiguous, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 32)
        self.norm = nn.LayerNorm(32)
        self.heads = nn.Linear(32, 96)
        self.out = nn.Linear(32, 100)
        self.out.weight = self.table.weight
        self.register_buffer("order", torch.arange(15, -1, -1))

    def forward(self, ids: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        x = self.norm(self.table(ids))[:, self.order]
        q, k, v = self.heads(x).view(2, 16, 3, 2, 16).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(16, 16, dtype=torch.bool, device=x.device).tril()
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = y.transpose(1, 2).contiguous().flatten(2)
        return self.out(nn.functional.gelu(y, approximate="tanh") * scale + x).softmax(-1)


IDS = torch.zeros(2, 16, dtype=torch.int64)


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_a_model_becomes_kernels_and_calls(target: str, tmp_path: Path) -> None:
    model = Block().eval()
    compiled = cuesta.compile_for(model, {"ids": IDS, "scale": 0.5}, target=target)
    assert str(compiled.target) == target
    assert "aten.addmm.default" in compiled.aten_calls
    names = {kernel.name for kernel in compiled.kernels}
    assert len(names) == len(compiled.kernels) >= 3
    for kernel in compiled.kernels:
        assert kernel.binary[:4] == b"\x7fELF" and kernel.symbol.encode() in kernel.binary
        assert "tt.func" in kernel.text and kernel.symbol in (kernel.assembly or "")
        assert min(kernel.grid) >= 1 and kernel.registers
        assert f"{kernel.name}: grid" in str(compiled)
    assert not model.out.weight.is_meta and model.out.weight.device.type == "cpu"
    folder = compiled.write(tmp_path / "out")
    listed = json.loads((folder / "kernels.json").read_text())
    assert {row["name"] for row in listed["kernels"]} == names
    assert all((folder / row["file"]).read_bytes() in {k.binary for k in compiled.kernels} for row in listed["kernels"])


def test_attention_is_the_targets_not_the_cpus() -> None:
    calls = cuesta.compile_for(Block().eval(), (IDS,), target="cuda:90").aten_calls
    assert any("attention" in call for call in calls)
    assert not any("cpu" in call for call in calls)


def test_nothing_is_computed_and_no_weight_is_held() -> None:
    model = nn.Sequential(nn.Linear(1 << 20, 1 << 20, device="meta"), nn.ReLU())  # 4 TiB
    compiled = cuesta.compile_for(model, torch.ones(2, 1 << 20, device="meta"), target="cuda:80")
    assert sum(compiled.aten_calls.values()) == 1


@pytest.mark.parametrize(
    "inputs",
    [torch.ones(7), (torch.ones(7),), [torch.ones(7)], {"x": torch.ones(7)}],
    ids=["one", "tuple", "list", "dict"],
)
def test_inputs_may_be_given_in_any_way(inputs: Any) -> None:
    (kernel,) = cuesta.compile_for(lambda x: x.exp(), inputs, target="cuda:90").kernels
    assert kernel.name == "exp"


def test_the_same_function_again_and_again_is_traced_each_time() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x + x

    for _ in range(torch._dynamo.config.recompile_limit + 2):
        assert len(cuesta.compile_for(double, torch.ones(7), target="cuda:90").kernels) == 1


def test_a_cut_model_has_several_graphs() -> None:
    def cut(x: torch.Tensor) -> torch.Tensor:
        x = x.exp()
        torch._dynamo.graph_break()
        return x.sin()

    kernels = cuesta.compile_for(cut, torch.ones(7), target="cuda:90").kernels
    assert [(kernel.graph, kernel.name) for kernel in kernels] == [(0, "exp"), (1, "sin")]


def test_a_training_step_has_the_gradients_kernels_too(tmp_path: Path) -> None:
    model = Block()

    def loss(ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    compiled = cuesta.compile_for(loss, IDS, target="cuda:90", training=True)
    assert compiled.graphs == ["forward", "backward"]
    assert any("attention_backward" in call for call in compiled.aten_calls)
    names = {kernel.name for kernel in compiled.kernels if kernel.graph == 1}
    assert any("native_layer_norm_backward" in name for name in names)
    assert f"graph 1 (backward), {min(names)}" in str(compiled)
    listed = json.loads((compiled.write(tmp_path / "out") / "kernels.json").read_text())
    assert listed["graphs"] == ["forward", "backward"]
    assert all(p.grad is None for p in model.parameters())


def test_the_plan_of_memory_is_told() -> None:
    """A product's 1 MiB is saved, and freed by the backward graph, which returns 16 KiB."""
    layer = nn.Linear(64, 64, bias=False)
    compiled = cuesta.compile_for(lambda x: layer(x).tanh().sum(), torch.randn(4096, 64), "cuda:90", training=True)
    forward, backward = compiled.memory
    assert 1 << 20 <= forward.kept <= forward.peak < (1 << 20) + 4096
    assert backward.kept == (16 << 10) - (1 << 20)
    assert "graph 1 (backward), " in str(compiled) and "1008.0 KiB freed" in str(compiled)


def test_options_are_torch_compiles() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        return x.exp().sin()

    together = cuesta.compile_for(chain, torch.ones(7), target="cuda:90")
    apart = cuesta.compile_for(chain, torch.ones(7), target="cuda:90", options={"fusion": False})
    assert (len(together.kernels), len(apart.kernels)) == (1, 2)


def test_progress_is_said_of_a_long_compile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUESTA_PROGRESS", "1")
    cuesta.compile_for(torch.exp, torch.ones(7), target="cuda:90")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "QUIET", 0.0)
    cuesta.compile_for(torch.exp, torch.ones(7), target="cuda:90")
    assert capsys.readouterr().err.startswith("cuesta: 1 graph traced, ")


@pytest.mark.parametrize(
    ("target", "words"), [("cpu", "not for target cpu"), ("tt", "GPUs"), ("cuda:99", "unknown target")]
)
def test_a_target_without_binaries_is_refused(target: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        cuesta.compile_for(torch.exp, torch.ones(7), target=target)


@pytest.mark.parametrize("function", [lambda x: x.nonzero() * 2, lambda x: x * 2 if x.sum() > 0 else x])
def test_what_depends_on_data_is_refused(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(Unsupported, match=r"depends on its data: aten\."):
        cuesta.compile_for(function, torch.ones(7), target="cuda:90")


def test_what_is_not_captured_is_an_error_and_not_nothing() -> None:
    """As of a function that calls a recurrent layer, which Dynamo leaves to eager, or of one that computes nothing."""
    with pytest.raises(Unsupported, match=r"captures no graph of the model.*TORCH_LOGS=graph_breaks says why"):
        cuesta.compile_for(lambda x: x, torch.ones(7), target="cuda:90")


def test_several_results_of_reductions_in_one_kernel() -> None:
    """Triton 3.6 refused the kernel where all its stores stood at the end."""

    def cosine(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        xy, xx, yy = (x * y).sum(1), (x * x).sum(1) + 1e-12, (y * y).sum(1) + 1e-12
        length = (xx * yy).sqrt()
        return xy, xx, yy, length, xy / length, 1 - xy / length

    compiled = cuesta.compile_for(cosine, (torch.randn(5, 5), torch.randn(5, 5)), target="cuda:90")
    assert len(compiled.kernels) == 1


class Tokens(nn.Module):
    """A convolution whose result a CPU and a GPU lay out differently, viewed as the GPU's layout does not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.out = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, tokens, channels = x.shape
        side = int(tokens**0.5)
        y = self.places(x.transpose(1, 2).view(n, channels, side, side)).flatten(2).transpose(1, 2)
        result: torch.Tensor = self.out(nn.functional.gelu(y))
        return result


def test_views_of_what_a_gpu_lays_out_differently() -> None:
    x = torch.randn(2, 64, 32, dtype=torch.bfloat16)
    compiled = cuesta.compile_for(Tokens().eval().bfloat16(), (x,), target="cuda:90")
    # The convolution, its bias and gelu are one kernel; the weight is copied into the order of its places.
    assert [kernel.name for kernel in compiled.kernels] == ["copy", "convolution_gelu"], str(compiled)
    assert compiled.aten_calls == {"aten.addmm.default": 1}


@pytest.mark.parametrize("training", [False, True])
def test_convolutions_of_tokens(training: bool) -> None:
    """Of one dim, depthwise, as state space models have it: torch copies what is transposed before the convolution."""
    convolution = nn.Conv1d(32, 32, 4, padding=3, groups=32)

    def mixed(x: torch.Tensor) -> torch.Tensor:
        return F.silu(convolution(x.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2).sum()

    x = torch.randn(2, 20, 32, requires_grad=training)
    compiled = cuesta.compile_for(mixed, (x,), target="cuda:90", training=training)
    assert [kernel.name for kernel in compiled.kernels][:2] == ["copy", "convolution"], str(compiled)
    assert set(compiled.aten_calls) == ({"aten.convolution_backward.default"} if training else set())


def test_the_gradient_of_a_softmax_of_turned_scores() -> None:
    """Heads that talk to each other: the gradient of the softmax, in bf16, is that of a permuted tensor."""
    heads = nn.Linear(4, 4)

    def loss(scores: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            weights = heads(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).softmax(-1)
            return heads(weights.permute(0, 2, 3, 1)).float().square().mean()

    assert cuesta.compile_for(loss, (torch.randn(2, 4, 16, 16),), target="cuda:90", training=True).kernels


def test_a_check_of_eagers_cpu_kernels_is_left_out() -> None:
    """one_hot of a tensor on the CPU asserts that classes are positive; on a GPU nothing waits for that."""

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return (torch.nn.functional.one_hot(x.argmax(-1), 8) * x).sum()

    x = torch.randn(5, 8, requires_grad=True)
    assert cuesta.compile_for(chosen, (x,), target="cuda:90", training=True).kernels
