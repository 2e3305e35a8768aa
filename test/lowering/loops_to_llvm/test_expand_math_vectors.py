"""expand-math's functions fill vectors: by the machine code of loops, and by the bits of what vectors give."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest
import torch

from cuesta.lowering.loops_to_llvm.expand_math import FUNCTIONS

Compile = Callable[..., Any]


def _needs_wide_fma() -> None:
    if which("objdump") is None:
        pytest.skip("needs objdump to read the machine code")
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("needs AVX2 or AVX-512")


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"sin", "cos", "tan"}))
def test_the_loop_is_vectorised(name: str, element: str, tmp_path: Path, compiled: Compile) -> None:
    """Packed arithmetic on wide registers, and no symbol but the function's own: nothing calls libm."""
    _needs_wide_fma()
    if FUNCTIONS[name].emit_wide is None and element == "f64":
        pytest.skip("left for libm")
    listing = compiled(name, element).listing(tmp_path / "apply.o")
    assert re.search(r"\bv(fn?m(add|sub)\d+|div)p[sd]\s.*%[yz]mm", listing)
    assert "*UND*" not in listing


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_the_loop_of_turns_is_vectorised(name: str, tmp_path: Path, compiled: Compile) -> None:
    """f32 as any other; of f64 the loop calls the function of as many numbers as fill a register."""
    _needs_wide_fma()
    listing = compiled(name).listing(tmp_path / "narrow.o")
    assert re.search(r"\bvfn?m(add|sub)\d+p[sd]\s.*%[yz]mm", listing)
    assert "*UND*" not in listing
    loop = compiled(name, "f64").listing(tmp_path / "wide.o").split("<apply>:")[1].split("<_mlir_")[0]
    assert re.search(rf"\bcuesta_{name}_[48]\b", loop)


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_vectors_have_the_bits_of_scalars(name: str, element: str, compiled: Compile) -> None:
    if FUNCTIONS[name].emit_wide is None and element == "f64":
        pytest.skip("left for libm")
    one, many = compiled(name, element), compiled(name, element, lanes=16)
    dtype = {"f32": np.float32, "f64": np.float64}[element]
    x = np.concatenate([np.geomspace(1e-3, 50, 1020), [0, -1, np.nan, np.inf]]).astype(dtype)
    y = np.resize(np.array([0.5, -3, 2, np.inf, 7], dtype), x.size)
    operands = (x, y)[: one.arity]
    np.testing.assert_array_equal(many(*operands), one(*operands))
