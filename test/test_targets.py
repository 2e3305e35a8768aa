"""Targets: their text and what it says."""

from __future__ import annotations

import ctypes
import os

import pytest
import torch

from cuesta.errors import OptionError
from cuesta.options import Environment, Options
from cuesta.passes.pipelines import stages_for
from cuesta.targets import CPU, DEVICE_CODES, Target, list_targets, parse_target


@pytest.mark.parametrize("text", list_targets())
def test_text_and_target_are_one(text: str) -> None:
    target = parse_target(text)
    assert str(target) == text
    assert target.gpu == (text != "cpu")
    assert target.device_type in DEVICE_CODES


@pytest.mark.parametrize(
    "text", ["", "gpu", "cuda", "cuda:", "cuda:9.0", "cuda:70", "tt:", "cpu:x", "hip:gfx90a", "CUDA:90"]
)
def test_a_wrong_target_names_the_valid_ones(text: str) -> None:
    with pytest.raises(OptionError, match=r"unknown target .*cpu, cuda:80, .*hip:gfx942.*tt"):
        parse_target(text)


def test_what_a_target_says_of_its_machine() -> None:
    assert [parse_target(t).warp_size for t in ("cpu", "cuda:90", "hip:gfx942", "hip:gfx1100", "tt")] == [
        1,
        32,
        64,
        32,
        32,
    ]
    devices = [parse_target(t).device_type for t in ("cpu", "tt", "cuda:80", "hip:gfx942", "xpu")]
    assert devices == ["cpu", "cpu", "cuda", "cuda", "xpu"]


def test_device_codes_are_torchs() -> None:
    shim = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    for name, code in DEVICE_CODES.items():
        assert getattr(shim, f"aoti_torch_device_type_{name}")() == code


def test_the_option_takes_a_target_or_nothing() -> None:
    nothing = Environment()
    assert Options.from_torch(None, None, nothing).target is None
    assert Options.from_torch(None, {"target": "tt"}, nothing).target == Target("tt")
    for wrong in ("sm90", 90):
        with pytest.raises(OptionError, match="target"):
            Options.from_torch(None, {"target": wrong}, nothing)


def test_the_target_is_part_of_the_key() -> None:
    assert Options(target=Target("tt")).key() != Options().key()


def test_stages_of_a_gpu_end_where_those_of_a_cpu_do() -> None:
    assert list(stages_for(CPU)) == ["graph", "linalg", "kernels", "tiled", "buffers", "loops", "llvm"]
    assert list(stages_for(Target("cuda", "90"))) == ["graph", "linalg", "kernels", "blocks", "tt", "llvm"]
    assert stages_for(Target("tt")) == stages_for(Target("cuda", "90"))
