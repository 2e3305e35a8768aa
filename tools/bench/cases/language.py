"""The cases of `cuesta-bench --language`: texts that are read and made with a static cache, and attention of all kinds.

On a CPU a model of 0.15 billion parameters, on a GPU one with the sizes of Llama 3.2 1B, whose head has a weight of its
own. A step stands three quarters through the cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from cuesta.tools.bench.cases.attention import FLEX, Shape, causal, flex, masked
from cuesta.tools.bench.cases.case import BF16, F32, Case
from cuesta.tools.bench.cases.decoding import decoding, generation
from cuesta.tools.models import Built
from cuesta.tools.models.case import token_batch
from cuesta.tools.models.decoder import Decoder, DecoderSizes, decoder
from cuesta.tools.models.quantised import Float8Linear, Int4Linear, Int8Linear, with_narrow_linears
from cuesta.tools.models.transformer import logits_loss, transformers_model

STEPS = 64
"""Tokens that a loop makes."""

CPU_SIZES = DecoderSizes()
LLAMA_1B = DecoderSizes(layers=16, hidden=2048, heads=32, key_heads=8, inner=8192, vocabulary=128_256)
_SMALL = DecoderSizes(layers=2, hidden=128, heads=4, key_heads=2, inner=256, vocabulary=1000, length=256)
"""What the tokens of a loop are judged on."""

_NARROW: dict[str, type[nn.Module]] = {"int8": Int8Linear, "int4": Int4Linear, "float8": Float8Linear}


def _narrowed(layer: Callable[[Any], nn.Module], module: Decoder) -> Decoder:
    return with_narrow_linears(module, layer)


def _step(name: str, sizes: DecoderSizes, batch: int, dtype: torch.dtype = BF16, narrow: str = "") -> Case:
    change = partial(_narrowed, _NARROW[narrow]) if narrow else None
    at = sizes.length * 3 // 4
    return decoding(name, partial(decoder, replace(sizes, batch=batch), at=at, change=change), dtype)


def _steps(prefix: str, sizes: DecoderSizes, batches: tuple[int, ...]) -> Iterator[Case]:
    """A step in bf16 for each batch, and of one text and of four with narrow weights."""
    for batch in batches:
        yield _step(f"{prefix}_step_bf16_{batch}", sizes, batch)
    for narrow, batch in itertools.product(_NARROW, (1, 4)):
        yield _step(f"{prefix}_step_{narrow}_{batch}", sizes, batch, narrow=narrow)


def _prompt(prefix: str, sizes: DecoderSizes, length: int) -> Case:
    sizes = replace(sizes, length=max(sizes.length, length))
    return decoding(f"{prefix}_prompt_bf16_1x{length}", partial(decoder, sizes, prompt=length))


def _loop(prefix: str, sizes: DecoderSizes) -> Case:
    at = sizes.length // 2
    return decoding(
        f"{prefix}_generate_bf16_1x{STEPS}",
        partial(decoder, sizes, at=at),
        steps=STEPS,
        stand_in=partial(decoder, _SMALL, at=_SMALL.length // 2),
    )


def llama(s: DecoderSizes, prompt: int) -> Built:
    """transformers' Llama of these sizes, with a prompt, which never ends a text."""
    module = transformers_model(
        "LlamaForCausalLM",
        vocab_size=s.vocabulary,
        hidden_size=s.hidden,
        intermediate_size=s.inner,
        num_hidden_layers=s.layers,
        num_attention_heads=s.heads,
        num_key_value_heads=s.key_heads,
        max_position_embeddings=s.length,
        tie_word_embeddings=s.tied,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    tokens = token_batch(s.batch, prompt, s.vocabulary)
    return Built(module, {"input_ids": tokens}, tokens, logits_loss)


def _generate(prefix: str, sizes: DecoderSizes, prompt: int) -> Case:
    name = f"{prefix}_transformers_generate_bf16_1x{STEPS}"
    return generation(name, partial(llama, sizes, prompt), partial(llama, _SMALL, prompt), steps=STEPS)


def _cpu() -> Iterator[Case]:
    yield from _steps("decoder", CPU_SIZES, (1, 4))
    yield _step("decoder_step_f32_1", CPU_SIZES, 1, F32)
    yield _prompt("decoder", CPU_SIZES, 512)
    yield _loop("decoder", CPU_SIZES)
    shape = Shape(2, 8, 1024, 64, F32)
    # torch has no backward of flex_attention on a CPU.
    yield from (flex(name, shape) for name in FLEX)
    yield from (causal(shape), masked(shape))


def _gpu() -> Iterator[Case]:
    yield from _steps("llama_1b", LLAMA_1B, (1, 4, 8))
    yield _prompt("llama_1b", LLAMA_1B, 2048)
    yield _loop("llama_1b", LLAMA_1B)
    if find_spec("transformers") is not None:
        yield _generate("llama_1b", LLAMA_1B, 32)
    shape = Shape(4, 16, 2048, 64, BF16)
    for name in FLEX:
        yield from (flex(name, shape), flex(name, shape, trains=True))
    for width in (64, 128):
        yield from (causal(Shape(1, 16, length, width, BF16)) for length in (1024, 4096, 16_384))
    yield masked(shape)


LANGUAGE_CASES = {"cpu": tuple(_cpu()), "cuda": tuple(_gpu())}
"""The cases by device."""
