"""Models whose attention is matrix products, all that can be in kernels of ours: as eager computes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

import cuesta

transformers = pytest.importorskip("transformers")

KERNELS = {"gemm": "kernel", "cache": False}
TOKENS = torch.randint(0, 99, (2, 64), generator=torch.Generator().manual_seed(0))


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="cuesta", options=KERNELS)


def check_report() -> None:
    graphs = cuesta.report().graphs
    assert graphs and not any(graph.fallback or graph.instead for graph in graphs)
    assert any("mm" in op for graph in graphs for kernel in graph.kernels for op in kernel["ops"])


def test_gpt2_in_training_with_attention_in_products() -> None:
    sizes = {"n_layer": 1, "n_embd": 192, "n_head": 3, "vocab_size": 99, "bos_token_id": 0, "eos_token_id": 1}
    model = transformers.GPT2Model(transformers.GPT2Config(**sizes, attn_implementation="eager"))
    results = []
    for call in (model, compiled(model)):
        torch.manual_seed(0)  # of dropout
        model.zero_grad()
        loss = call(TOKENS, use_cache=False).last_hidden_state.square().mean()
        loss.backward()
        results.append([loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    assert_close(results[1], results[0], rtol=1e-3, atol=1e-5)
    check_report()


@pytest.mark.parametrize("attention", [pytest.param("eager", marks=pytest.mark.slow), "sdpa"])
def test_llama_behind_a_cache_of_keys_and_values(attention: str) -> None:
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 99, "pad_token_id": 2}
    sizes = {"num_hidden_layers": 1, "hidden_size": 256, "intermediate_size": 256}
    config = transformers.LlamaConfig(**heads, **sizes, attn_implementation=attention)
    model = transformers.LlamaModel(config).eval()
    results = []
    for call in (model, compiled(model)):
        cache = transformers.DynamicCache()
        with torch.no_grad():
            steps = [call(part, past_key_values=cache).last_hidden_state for part in TOKENS.split([48, 8, 8], 1)]
        results.append(steps)
    assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)
    check_report()


def test_attention_with_dropout() -> None:
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weighed = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25, is_causal=True)
        return weighed.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)

    results = []
    for call in (attention, compiled(attention)):
        torch.manual_seed(0)
        inputs = [torch.randn(2, 4, 64, 64, requires_grad=True) for _ in range(3)]
        torch.manual_seed(1)
        made = call(*inputs)
        made.square().sum().backward()
        results.append([made.detach(), *(x.grad for x in inputs)])
    assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)
    assert not any(graph.fallback or graph.instead for graph in cuesta.report().graphs)
