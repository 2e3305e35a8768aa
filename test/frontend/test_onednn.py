"""What cuesta takes for a convolution by oneDNN is what ATen computes so, or what is computed in f32."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from cuesta.frontend.capture.onednn import is_onednn_convolution
from cuesta.policy import slow_floats
from cuesta.policy.slow_floats import slow_in_convolutions, slow_in_products


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_aten_calls_onednn_for_it(dtype: torch.dtype) -> None:
    images, weight = torch.randn(2, 8, 16, 16, dtype=dtype), torch.randn(8, 8, 3, 3, dtype=dtype)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as seen:
        torch.conv2d(images, weight)
    called = {event.key for event in seen.key_averages()}
    is_widened = dtype == torch.bfloat16 and "bf16" in slow_in_convolutions()
    assert is_onednn_convolution(images, transposed=False) == ("aten::mkldnn_convolution" in called or is_widened)
    assert not is_onednn_convolution(images, transposed=True)


@pytest.mark.parametrize(("bf16", "f16"), [(False, False), (True, False), (True, True)])
def test_instructions_for_narrow_floats(monkeypatch: pytest.MonkeyPatch, bf16: bool, f16: bool) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: bf16)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_fp16_supported", lambda: f16)
    monkeypatch.setattr(slow_floats, "has_wide_vectors", lambda: bf16)
    assert slow_in_convolutions() == {name for name, fast in (("bf16", bf16), ("f16", f16)) if not fast}
    assert slow_in_products() == (set() if bf16 else {"bf16", "f16"})
    half = torch.empty(1, 8, 4, 4, dtype=torch.float16)
    assert is_onednn_convolution(half.bfloat16(), transposed=False)
    assert is_onednn_convolution(half, transposed=False) == (not f16)
    assert is_onednn_convolution(half.float(), transposed=False)
