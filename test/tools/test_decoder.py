"""The benchmark's decoder and its narrow weights: what a step computes, and the bytes that it is said to read."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from cuesta.tools.backend import register_cuesta
from cuesta.tools.bench.cases.language import CPU_SIZES, LLAMA_1B
from cuesta.tools.models.decoder import Decoder, DecoderSizes, decoder
from cuesta.tools.models.quantised import GROUP, Int4Linear, Int8Linear, NarrowLinear, with_narrow_linears

TINY = DecoderSizes(layers=2, hidden=64, heads=4, key_heads=2, inner=96, vocabulary=40, batch=2, length=16)
NARROW = [Int8Linear, Int4Linear]


def made(sizes: DecoderSizes = TINY) -> Decoder:
    torch.manual_seed(0)
    module = decoder(sizes).module.eval().requires_grad_(False)
    assert isinstance(module, Decoder)
    return module


def tokens(count: int) -> Tensor:
    return torch.randint(TINY.vocabulary, (TINY.batch, count), generator=torch.Generator().manual_seed(1))


def logits_without_cache(module: Decoder, text: Tensor) -> Tensor:
    """The logits behind each token, from attention to all of the text at once."""
    x, count = module.embedding(text), text.shape[1]
    turns = torch.arange(count)[:, None] * 10_000.0 ** -(torch.arange(0, TINY.width, 2) / TINY.width)
    turn = torch.polar(torch.ones_like(turns), turns)  # a pair of elements as one complex number

    def rotated(heads: Tensor) -> Tensor:
        pairs = torch.complex(*heads.contiguous().chunk(2, -1)) * turn
        return torch.cat([pairs.real, pairs.imag], -1)

    for layer in module.layers:
        own, h = layer.attention, layer.before_attention(x)
        q, k, v = (
            y.view(TINY.batch, count, -1, TINY.width).transpose(1, 2) for y in (own.query(h), own.key(h), own.value(h))
        )
        k, v = (y.repeat_interleave(TINY.heads // TINY.key_heads, 1) for y in (rotated(k), v))
        scores = rotated(q) @ k.mT / TINY.width**0.5
        seen = scores.masked_fill(torch.ones(count, count).triu(1).bool(), -torch.inf).softmax(-1) @ v
        x = x + own.out(seen.transpose(1, 2).flatten(2))
        x = x + layer.mlp(layer.before_mlp(x))
    return module.head(module.norm(x))


@pytest.mark.parametrize(
    ("sizes", "parameters"),
    [
        # Llama 3.2 1B has 1,235,814,400, with one table for the embedding and the head.
        (LLAMA_1B, 1_235_814_400 + 128_256 * 2048),
        (CPU_SIZES, 2 * 32_000 * 1024 + 8 * (1024 * (2 * 1024 + 2 * 256 + 3 * 2816) + 2 * 1024) + 1024),
    ],
)
def test_parameters(sizes: DecoderSizes, parameters: int) -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in Decoder(sizes).parameters()) == parameters


def test_a_prompt_and_steps_are_attention_to_the_whole_text() -> None:
    module, text = made(), tokens(9)
    expected = logits_without_cache(module, text)
    assert_close(module(text[:, :7], torch.arange(7)), expected[:, 6])
    for n in (7, 8):
        assert_close(module(text[:, n : n + 1], torch.tensor([n])), expected[:, n])


def test_what_lies_behind_the_position_does_not_count() -> None:
    module = made()
    position = torch.tensor([5])
    before = module(tokens(1), position)
    for cache in module.caches():
        cache[:, :, 6:] = 1000.0
    assert_close(module(tokens(1), position), before, rtol=0, atol=0)


def test_a_compiled_step_is_eagers() -> None:
    register_cuesta()
    module, position = made(), torch.tensor([5])
    expected, kept = module(tokens(1), position), [cache.clone() for cache in module.caches()]
    for cache in module.caches():
        cache[:, :, 5] = 0.0
    assert_close(torch.compile(module, backend="cuesta", fullgraph=True)(tokens(1), position), expected)
    assert_close(list(module.caches()), kept)


@pytest.mark.parametrize("narrow", NARROW)
def test_narrow_weights_compute_what_widened_ones_do(narrow: type[NarrowLinear]) -> None:
    module = with_narrow_linears(made(), narrow)
    widened = made()
    for name, layer in list(module.named_modules()):
        if isinstance(layer, NarrowLinear):
            linear = widened.get_submodule(name)
            assert isinstance(linear, nn.Linear)
            linear.weight.copy_(layer.widened(torch.float32))
    position = torch.tensor([5])
    assert_close(module(tokens(1), position), widened(tokens(1), position), rtol=0, atol=0)


def test_int8_is_within_half_a_step_of_each_rows_scale() -> None:
    weight = torch.randn(6, 64)
    layer = Int8Linear(weight)
    assert ((layer.widened(torch.float32) - weight).abs() <= layer.scale[:, None] * 0.5001).all()
    assert layer.values.dtype == torch.int8


def test_int4_is_within_half_a_step_of_each_groups_scale() -> None:
    # Also groups whose elements all have one sign, which a zero within 0 to 15 must still reach.
    weight = torch.cat([torch.randn(6, 64), torch.rand(6, 64) + 3, -torch.rand(6, 64) - 3, torch.zeros(1, 64)])
    layer = Int4Linear(weight)
    off = (layer.widened(torch.float32) - weight).view(-1, 2, GROUP).abs()
    # Value and zero are rounded each.
    assert (off <= layer.scale[:, :, None] * 1.0001).all()
    assert layer.packed.shape == (19, 32)
    assert layer.packed.dtype == torch.uint8
    assert 0 <= int(layer.zero.min()) <= int(layer.zero.max()) <= 15


def test_a_bias_is_refused() -> None:
    with pytest.raises(ValueError, match="0 has a bias"):
        with_narrow_linears(nn.Sequential(nn.Linear(4, 4)), Int8Linear)


# Elements of a layer's products, by hand: query and out, key and value, gate, up and down.
PRODUCTS = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96)
HEAD, NORMS = 40 * 64, 5 * 64
#: Keys and values of two layers: two texts, two heads of 16 elements, five positions.
CACHE = 2 * 2 * (2 * 2 * 16 * 5)
#: A row for each of the two tokens.
ROWS = 2 * 64


@pytest.mark.parametrize(
    ("change", "products"),
    [
        (lambda module: module, 4 * (PRODUCTS + HEAD)),
        (lambda module: module.to(torch.bfloat16).float(), 4 * (PRODUCTS + HEAD)),
        # A scale in f32 for each row: of query, key, value, out, gate, up, down, and the head.
        (
            lambda module: with_narrow_linears(module, Int8Linear),
            PRODUCTS + HEAD + 4 * (2 * (64 + 2 * 32 + 64 + 2 * 96 + 64) + 40),
        ),
        # Half a byte each, and a scale and a zero for 32 elements.
        (lambda module: with_narrow_linears(module, Int4Linear), (PRODUCTS + HEAD) // 2 + 8 * (PRODUCTS + HEAD) // 32),
    ],
    ids=["f32", "f32 again", "int8", "int4"],
)
def test_bytes_of_a_step(change: Callable[[Decoder], Decoder], products: int) -> None:
    assert change(made()).bytes_of_step(5) == products + 4 * (NORMS + ROWS + CACHE)


def test_bytes_in_bf16_are_half() -> None:
    module = made()
    full = module.bytes_of_step(5)
    assert module.to(torch.bfloat16).bytes_of_step(5) == full // 2


def test_a_tied_table_is_read_whole_and_once() -> None:
    tied = made(DecoderSizes(**{**vars(TINY), "tied": True}))
    assert tied.head.weight is tied.embedding.weight
    assert tied.bytes_of_step(0) == made().bytes_of_step(0) - 4 * ROWS
