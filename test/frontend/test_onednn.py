"""What cuesta takes for a convolution by oneDNN is what ATen computes so."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from cuesta.frontend.capture.onednn import is_onednn_convolution


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_aten_calls_onednn_for_it(dtype: torch.dtype) -> None:
    images, weight = torch.randn(2, 8, 16, 16, dtype=dtype), torch.randn(8, 8, 3, 3, dtype=dtype)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as seen:
        torch.conv2d(images, weight)
    called = {event.key for event in seen.key_averages()}
    assert is_onednn_convolution(images, transposed=False) == ("aten::mkldnn_convolution" in called)
    assert not is_onednn_convolution(images, transposed=True)


def test_without_bf16_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert not is_onednn_convolution(torch.empty(1, 8, 4, 4, dtype=torch.bfloat16), transposed=False)
    assert is_onednn_convolution(torch.empty(1, 8, 4, 4), transposed=False)
