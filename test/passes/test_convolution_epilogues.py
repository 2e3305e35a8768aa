"""Batch norms folded into convolutions, with cuDNN's epilogues: no further from float64 than twice eager's error.

cuDNN's two ops are stood in for on the CPU by what they compute: everything in f32, rounded once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta._mlir import ir
from cuesta.dialects import make_context, verify, walk
from cuesta.dialects.reference import run_reference
from cuesta.frontend.decompositions.table import decompositions
from cuesta.frontend.importer import import_graph
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.passes.pipelines import stages_for
from cuesta.targets import parse_target

CUDA = parse_target("cuda:90")


def add_relu(x: Tensor, w: Tensor, z: Tensor | None, alpha: None, b: Tensor | None, *places: object) -> Tensor:
    stride, padding, dilation, groups = places
    total = F.conv2d(x.float(), w.float(), b.float() if b is not None else None, stride, padding, dilation, groups)  # type: ignore[arg-type]
    return (total if z is None else total + z.float()).relu().to(x.dtype)


def relu(x: Tensor, w: Tensor, b: Tensor | None, *places: object) -> Tensor:
    return add_relu(x, w, None, None, b, *places)


@pytest.fixture(autouse=True)
def cudnn_on_the_cpu() -> Iterator[None]:
    library = torch.library.Library("aten", "IMPL")
    library.impl("cudnn_convolution_relu", relu, "CPU")
    library.impl("cudnn_convolution_add_relu", add_relu, "CPU")
    with make_context():
        yield
    library._destroy()  # type: ignore[no-untyped-call]


class Block(nn.Module):
    """A residual block with a projection, as ResNet has it."""

    def __init__(self, channels: int, inner: int, results: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(channels, inner, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(inner)
        self.second, self.norm2 = nn.Conv2d(inner, results, 1), nn.BatchNorm2d(results)
        self.project, self.norm3 = nn.Conv2d(channels, results, 1, stride=2, bias=False), nn.BatchNorm2d(results)
        for norm in (self.norm, self.norm2, self.norm3):
            norm.running_mean = torch.randn(norm.num_features)
            norm.running_var = torch.rand(norm.num_features) * 4 + 0.05
            nn.init.normal_(norm.weight, 1.0, 0.3)
            nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.first(x)))
        return F.relu(self.norm2(self.second(y)) + self.norm3(self.project(x)))


def error(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("channels", [(24, 32, 48), (18, 36, 50)], ids=["multiples of 8", "padded"])
def test_no_further_off_than_eager(
    dtype: torch.dtype, memory_format: torch.memory_format, channels: tuple[int, int, int]
) -> None:
    torch.manual_seed(3)
    model = Block(*channels).eval().to(dtype).to(memory_format=memory_format)  # type: ignore[call-overload]
    x = torch.randn(4, channels[0], 16, 16, dtype=dtype).to(memory_format=memory_format)
    state = dict(model.state_dict())
    names = list(state)

    def call(x: Tensor, *tensors: Tensor) -> list[Tensor]:
        return [torch.func.functional_call(model, dict(zip(names, tensors, strict=True)), (x,))]

    with torch.no_grad():
        traced = make_fx(call, decomposition_table=decompositions(), tracing_mode="fake")(x, *state.values())
        eager, exact = model(x), copy.deepcopy(model).double()(x.double())
    traced.graph.eliminate_dead_code()
    module = import_graph(traced, target=CUDA).module
    for op in walk(module.operation):
        if op.name == "cuesta.convolution":  # as it is told where the tensors are on a GPU
            op.attributes["cudnn"] = ir.StringAttr.get("tensor_cores")
    Pipeline.parse(stages_for(CUDA)["graph"].pipeline).run(module, verify=False)
    verify(module, "graph")
    text = str(module)
    assert text.count("aten.cudnn_convolution_relu.default") == 1
    assert text.count("aten.cudnn_convolution_add_relu.default") == 1
    assert text.count("aten.convolution.default") == 1  # the projection, whose bias the other one took
    assert "cuesta.relu" not in text
    assert ("cuesta.window" in text) == (dtype == torch.bfloat16 and channels[0] % 8 != 0)
    (found,) = run_reference(module, [x, *state.values()])
    assert error(found, exact) <= 2 * error(eager, exact)
