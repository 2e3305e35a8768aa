"""The layers that torch's transformers call in evaluation as one op each are compiled in their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta

Same = Callable[..., Any]
X = torch.randn(3, 5, 16, generator=torch.Generator().manual_seed(0))
KEYS = torch.arange(5).expand(3, 5) >= torch.tensor([[5], [3], [2]])
SCORES = torch.ones(5, 5, dtype=torch.bool).triu(1)


MASKS = {
    "none": {},
    "of keys": {"src_key_padding_mask": KEYS},
    "of scores": {"src_mask": SCORES},
    "of both": {"src_key_padding_mask": KEYS, "src_mask": SCORES},
}


def called() -> list[str]:
    return [call["op"] for graph in cuesta.report().graphs for call in graph.aten_calls]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masks", MASKS)
def test_an_encoder_layer(same_as_eager: Same, norm_first: bool, activation: str, masks: str) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.1, activation, norm_first=norm_first, batch_first=True).eval()
    with torch.no_grad():
        same_as_eager(lambda x: layer(x, **MASKS[masks]), X)
    assert not [name for name in called() if "encoder" in name or "multi_head" in name]


@pytest.mark.parametrize("options", [{"need_weights": False}, {}, {"average_attn_weights": False}], ids=str)
def test_attention_and_its_weights(same_as_eager: Same, options: dict[str, bool]) -> None:
    layer = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    with torch.no_grad():
        same_as_eager(lambda x: layer(x, x, x, key_padding_mask=KEYS, **options), X)
    assert not [name for name in called() if "multi_head" in name]


def test_attention_of_three_tensors(same_as_eager: Same) -> None:
    weight, bias = torch.randn(24, 8), torch.randn(24)
    q, k, v = torch.randn(3, 2, 4, 8)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return torch._native_multi_head_attention(q, k, v, 8, 2, weight, bias, weight[:8], bias[:8])

    same_as_eager(attend, q, k, v)
    assert "aten._native_multi_head_attention.default" not in called()


def test_a_mask_of_numbers_hides_where_it_is_not_0(same_as_eager: Same) -> None:
    layer = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    weights = (layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias)
    with torch.no_grad():
        same_as_eager(
            lambda x: torch._native_multi_head_attention(x, x, x, 16, 4, *weights, SCORES.float(), True, True, 0), X
        )
    assert "aten._native_multi_head_attention.default" not in called()


@pytest.mark.may_fall_back("what eager raises")
def test_a_mask_of_no_known_type_raises_as_in_eager() -> None:
    weight, bias = torch.randn(48, 16), torch.randn(48)
    attend = torch.compile(
        lambda x: torch._native_multi_head_attention(x, x, x, 16, 4, weight, bias, weight[:16], bias[:16], KEYS),
        backend="cuesta",
    )
    with pytest.raises(RuntimeError, match="Mask Type should be defined"):
        attend(X)


def test_a_row_that_sees_nothing_is_not_a_number(same_as_eager: Same) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    hidden = torch.tensor([[True], [False], [False]]).expand(3, 5)
    with torch.no_grad():
        same_as_eager(lambda x: layer(x, src_key_padding_mask=hidden), X)
