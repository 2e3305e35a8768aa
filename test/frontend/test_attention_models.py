"""Transformers' models: one attention op a layer and way, none of their masks left."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from cuesta.dialects import walk
from cuesta.frontend.attention.keep_whole import keep_attention_whole
from cuesta.targets import parse_target

transformers = pytest.importorskip("transformers")

LAYERS = 2
SIZES = {"num_hidden_layers": LAYERS, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 64}
TOKENS = torch.randint(0, 99, (2, 16), generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
SPECIAL = {"vocab_size": 99, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}


def gpt2() -> Any:
    config = transformers.GPT2Config(n_layer=LAYERS, n_embd=64, n_head=4, **SPECIAL, attn_implementation="sdpa")
    return transformers.GPT2Model(config)


def bert() -> Any:
    config = transformers.BertConfig(**SIZES, **SPECIAL, attn_implementation="sdpa")
    return transformers.BertModel(config, add_pooling_layer=False)


def llama() -> Any:
    config = transformers.LlamaConfig(**SIZES, **SPECIAL, num_key_value_heads=2, attn_implementation="sdpa")
    return transformers.LlamaModel(config)


def vit() -> Any:
    config = transformers.ViTConfig(**SIZES, image_size=32, patch_size=8, attn_implementation="sdpa")
    return transformers.ViTModel(config, add_pooling_layer=False)


#: model, input, whether it is causal
MODELS = {"gpt2": (gpt2, TOKENS, 1), "bert": (bert, TOKENS, 0), "llama": (llama, TOKENS, 1), "vit": (vit, IMAGES, 0)}


def named(run: Any, name: str) -> list[Any]:
    return [op for op in walk(run.graph.module.operation) if op.name == name]


def loss_and_gradients(model: torch.nn.Module, call: Any, x: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    loss = call(x).last_hidden_state.square().mean()
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("name", MODELS)
def test_training(name: str, capture: Any) -> None:
    make, x, causal = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()  # no dropout
    expected = loss_and_gradients(model, model, x)
    capture.rewrite = functools.partial(keep_attention_whole, target=parse_target("cuda:90"))
    actual = loss_and_gradients(model, capture.compile(model), x)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-3)
    forward, backward = capture.runs
    for ops in (named(forward, "cuesta.attention"), named(backward, "cuesta.attention_backward")):
        assert [op.attributes["causal"].value for op in ops] == [causal] * LAYERS
        assert {op.attributes["route"].value for op in ops} == {"efficient"}  # as for f32
    # Neither operand nor what a mask would be made of.
    assert all(len(op.operands) == 3 for op in named(forward, "cuesta.attention"))
    assert not any(str(op.results[0].type).endswith("16x16xi1>") for op in walk(forward.graph.module.operation)
                   if len(op.results))  # fmt: skip


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_dropout(name: str, capture: Any) -> None:
    make, x, causal = MODELS[name]
    model = make().train().bfloat16()
    capture.rewrite = functools.partial(keep_attention_whole, target=parse_target("cuda:90"))
    loss_and_gradients(model, capture.compile(model), x)
    forward, backward = capture.runs
    drops = named(forward, "cuesta.dropout_attention"), named(backward, "cuesta.dropout_attention_backward")
    for ops in drops:
        assert [op.attributes["causal"].value for op in ops] == [causal] * LAYERS
        assert {op.attributes["route"].value for op in ops} == {"flash"}


def test_a_mask_that_is_given_stays(capture: Any) -> None:
    model = bert().eval()
    given = torch.ones_like(TOKENS)
    given[0, 12:] = 0
    expected = model(TOKENS, attention_mask=given).last_hidden_state.detach()
    capture.rewrite = functools.partial(keep_attention_whole, target=parse_target("cuda:90"))
    with torch.no_grad():
        actual = capture.compile(model)(TOKENS, attention_mask=given).last_hidden_state
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-3)
    ops = named(capture.run, "cuesta.attention")
    assert [len(op.operands) for op in ops] == [4] * LAYERS
    # Layers share what was made of it.
    assert len({op.operands[3] for op in ops}) == 1
