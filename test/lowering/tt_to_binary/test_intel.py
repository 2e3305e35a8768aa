"""The sample kernels through Intel's Triton, which cannot be installed beside Triton: `make test-intel` runs this."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from cuesta.lowering.tt_to_binary.kernel import KernelText
from cuesta.lowering.tt_to_binary.kernels import compile_kernels
from cuesta.targets import parse_target

KERNELS = Path(__file__).parent / "kernels"
SPIRV = 0x07230203


@pytest.mark.skipif("CUESTA_XPU_PYTHON" not in os.environ, reason="make test-intel sets up the environment for it")
def test_every_sample_becomes_spirv() -> None:
    names = [path.name.removesuffix(".mlir") for path in sorted(KERNELS.glob("*.mlir"))]
    names = [name for name in names if not name.endswith((".cuda", ".hip"))]
    texts = [KernelText(name.partition(".")[0], (KERNELS / f"{name}.mlir").read_text(), 4, 3) for name in names]
    assert texts
    for text, binary in zip(texts, compile_kernels(texts, parse_target("xpu")), strict=True):
        assert struct.unpack_from("<I", binary.code)[0] == SPIRV
        assert binary.symbol == f"cuesta_{text.name}" and binary.symbol.encode() in binary.code
