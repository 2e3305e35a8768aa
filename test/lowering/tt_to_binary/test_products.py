"""Products as kernels for every target: tensor cores multiply, loads are on their way meanwhile, registers suffice."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.lowering.tt_to_binary.target_kernels import TargetKernel, make_kernels
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.targets import parse_target
from cuesta.tools.gpu_kernels.check import difference
from cuesta.tools.gpu_kernels.collect import collect
from cuesta.tools.gpu_kernels.suite import SuiteModel
from cuesta.tools.models import Built

#: gelu(a @ b + bias); rows of a begin at multiples of 16 bytes and end elsewhere.
GRAPH = """
func.func @graph(%c: tensor<1536xbf16> {{cuesta.strides = [1]}},
                 %a: tensor<2048x1003xbf16> {{cuesta.strides = [1024, 1]}},
                 %b: tensor<1003x1536xbf16> {{cuesta.strides = [1536, 1]}})
    -> (tensor<2048x1536xbf16> {{cuesta.strides = [1536, 1]}}) {{
  %0 = "cuesta.mm"(%a, %b) {{product = "{tile}"}}
      : (tensor<2048x1003xbf16>, tensor<1003x1536xbf16>) -> tensor<2048x1536xf32>
  %1 = "cuesta.convert"(%c) : (tensor<1536xbf16>) -> tensor<1536xf32>
  %2 = "cuesta.add"(%0, %1) : (tensor<2048x1536xf32>, tensor<1536xf32>) -> tensor<2048x1536xf32>
  %3 = "cuesta.gelu"(%2) {{approximate = "none"}} : (tensor<2048x1536xf32>) -> tensor<2048x1536xf32>
  %4 = "cuesta.convert"(%3) : (tensor<2048x1536xf32>) -> tensor<2048x1536xbf16>
  return %4 : tensor<2048x1536xbf16>
}}
"""
STEPS = "cuesta-to-linalg{checks=false},form-kernels{target=gpu},plan-memory,choose-blocks,linalg-to-tt"


def kernel(tile: str, target: str) -> TargetKernel:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(GRAPH.format(tile=tile))
        Pipeline.parse(f"builtin.module({STEPS})").run(module)
        (made,) = make_kernels(module, parse_target(target))
    return made


@pytest.mark.parametrize(
    ("target", "tile", "multiplies", "loads"),
    [
        ("cuda:90", "128x256x64/8/3", "wgmma.mma_async", "cp.async.cg.shared"),
        ("hip:gfx942", "128x64x64/4/2", "v_mfma", "load_dwordx4"),
        pytest.param("cuda:80", "128x64x64/4/4", "mma.sync", "cp.async.cg.shared", marks=pytest.mark.slow),
        pytest.param("cuda:90", "16x64x128/4/5", "mma.sync", "cp.async.cg.shared", marks=pytest.mark.slow),
        pytest.param("cuda:100", "128x256x64/8/3", "tcgen05.mma", "cp.async.cg.shared", marks=pytest.mark.slow),
        pytest.param("hip:gfx1100", "16x64x128/4/2", "v_wmma", "load_b128", marks=pytest.mark.slow),
    ],
)
def test_a_product_uses(target: str, tile: str, multiplies: str, loads: str) -> None:
    made = kernel(tile, target)
    assert made.assembly is not None
    assert multiplies in made.assembly and loads in made.assembly
    assert made.spills == 0


def test_rows_that_end_elsewhere_are_loaded_whole_in_the_loop() -> None:
    assembly = kernel("64x64x64/4/3", "cuda:90").assembly
    assert assembly is not None
    _, *loops = assembly.split("$L__BB0_")
    (loop,) = [part for part in loops if "wgmma.mma_async" in part and "cp.async.cg.shared" in part]
    assert "ld.global" not in loop


def test_a_head_in_training_reads_and_writes_within_its_memory() -> None:
    # 515 classes: the gradient of the scores has rows of 576, and is read across by the weight's gradient.
    def built() -> Built:
        x, targets = torch.randn(512, 96), torch.randint(0, 515, (512,))
        return Built(torch.nn.Linear(96, 515), {"input": x}, targets, lambda y, t: F.cross_entropy(y.float(), t))

    model = SuiteModel("head", built, built, torch.bfloat16)
    kernels = collect(model, "small", True, parse_target("cuda:90"))
    assert sum("cuesta.product" in kernel.linalg for kernel in kernels) == 2  # the scores, and the weight's gradient
    assert [difference(kernel) for kernel in kernels] == [None] * len(kernels)
