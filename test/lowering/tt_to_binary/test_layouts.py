"""Tests that a kernel whose tensors Triton replicates in all threads is refused before it is lowered."""

from __future__ import annotations

import pytest

from cuesta.errors import KernelRefused
from cuesta.lowering.tt_to_binary.kernel import KernelText
from cuesta.lowering.tt_to_binary.kernels import compile_kernels
from cuesta.lowering.tt_to_binary.layouts import most_held
from cuesta.targets import parse_target

_LAYOUT = "#a = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [32, 1], warpsPerCTA = [16, 1], order = [1, 0]}>"


@pytest.mark.parametrize(
    ("kind", "held"),
    [
        ("tensor<1024x8xf32, #a>", 16),
        ("tensor<1024x4xf32, #a>", 8),
        ("tensor<16x512xf32, #a>", 512),
        ("tensor<1024x16x!tt.ptr<bf16>, #a>", 32),
        ("tensor<64xf32, #mma>", 0),  # not blocked
        ("tensor<64xf32, #ttg.slice<{dim = 0, parent = #a}>>", 0),  # its parent is in the text as well
    ],
)
def test_elements_of_a_thread(kind: str, held: int) -> None:
    assert most_held(f"{_LAYOUT}\n%0 = arith.negf %1 : {kind}") == held


# The largest element of x less the sum of y. Triton computes with x, which has 1024 elements along dim 1, in the layout
# of y, which has them along dim 0.
_TWO_SPANS = """
module {
  tt.func public @two_spans(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>) attributes {noinline = false} {
    %c = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
    %along = tt.expand_dims %c {axis = 0 : i32} : tensor<1024xi32> -> tensor<1x1024xi32>
    %down = tt.expand_dims %c {axis = 1 : i32} : tensor<1024xi32> -> tensor<1024x1xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<1x1024x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %along : tensor<1x1024x!tt.ptr<f32>>, tensor<1x1024xi32>
    %xv = tt.load %xp : tensor<1x1024x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<1024x1x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %down : tensor<1024x1x!tt.ptr<f32>>, tensor<1024x1xi32>
    %yv = tt.load %yp : tensor<1024x1x!tt.ptr<f32>>
    %m = "tt.reduce"(%yv) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      tt.reduce.return %s : f32
    }) : (tensor<1024x1xf32>) -> tensor<1xf32>
    %m1 = tt.expand_dims %m {axis = 0 : i32} : tensor<1xf32> -> tensor<1x1xf32>
    %mx = tt.broadcast %m1 : tensor<1x1xf32> -> tensor<1x1024xf32>
    %z = arith.subf %xv, %mx : tensor<1x1024xf32>
    %t = "tt.reduce"(%z) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %s = arith.maxnumf %a, %b : f32
      tt.reduce.return %s : f32
    }) : (tensor<1x1024xf32>) -> tensor<1xf32>
    %os = tt.splat %out : !tt.ptr<f32> -> tensor<1x!tt.ptr<f32>>
    tt.store %os, %t : tensor<1x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_a_tensor_in_the_layout_of_another(target: str) -> None:
    with pytest.raises(KernelRefused, match="layouts of kernel two_spans for target .* give each thread 1024 elements"):
        compile_kernels([KernelText("two_spans", _TWO_SPANS, 4, 3)], parse_target(target))
