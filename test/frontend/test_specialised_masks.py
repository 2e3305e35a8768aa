"""With dynamic shapes masks are proven when the sizes of a call are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._functorch.aot_autograd import aot_module_simplified
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.dialects import verify, walk
from cuesta.dialects.reference import run_in_place
from cuesta.driver.calling import bind
from cuesta.driver.specialise import specialised
from cuesta.frontend.attention.attention_ops import attention
from cuesta.frontend.attention.keep_whole import keep_attention_whole
from cuesta.frontend.attention.specialised_masks import prove_masks
from cuesta.frontend.importer import import_graph
from cuesta.reports.compile_report import SetsOfSizes
from cuesta.targets import parse_target


def lower(length: int, keys: int) -> torch.Tensor:
    return torch.arange(keys) <= torch.arange(length)[:, None]


def traced(function: Callable[..., Any], length: int, keys: int) -> torch.fx.GraphModule:
    with FakeTensorMode():
        q, k = torch.empty(1, 2, length, 8), torch.empty(1, 2, keys, 8)
        gm = make_fx(function)(q, k, k)
    prove_masks(gm)
    return gm


def whole(route: str, mask: Callable[[int, int], torch.Tensor]) -> Callable[..., Any]:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        bias = torch.where(mask(q.shape[2], k.shape[2]), 0.0, -torch.inf)
        return attention(q, k, v, bias, False, 0.5, route)[0]

    return call


def test_a_given_mask_of_symbolic_size(capture: Any) -> None:
    """The efficient kernel's mask is padded to rows of a multiple of 16, whatever its size turns out to be."""
    found: list[Any] = []

    def compiler(gm: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def compile_static(numbers: torch.fx.GraphModule) -> Any:
            graph = import_graph(numbers)
            verify(graph.module, "import")
            found.extend(op for op in walk(graph.module.operation) if op.name == "cuesta.attention")
            return bind(lambda xs: run_in_place(graph.module, xs), graph.convention, numbers)

        return specialised(gm, SetsOfSizes("for the test"), compile_static)

    def backend(gm: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        keep_attention_whole(gm, parse_target("cuda:90"))
        return aot_module_simplified(gm, examples, fw_compiler=compiler, inference_compiler=compiler)

    torch._dynamo.reset()
    compiled = torch.compile(F.scaled_dot_product_attention, backend=backend, fullgraph=True)
    for length, batch in ((5, 3), (7, 2), (32, 4)):
        q, k, v = (torch.randn(batch, 2, length, 8) for _ in range(3))
        shown = torch.rand(batch, 1, 1, length) > 0.2
        shown[..., 0] = True
        # Not the heads, by whose sizes a kernel is chosen.
        for x, dims in ((q, (0, 2)), (k, (0, 2)), (v, (0, 2)), (shown, (0, 3))):
            torch._dynamo.mark_dynamic(x, dims)
        torch.testing.assert_close(compiled(q, k, v, shown), F.scaled_dot_product_attention(q, k, v, shown))
        rows = -(-length // 16) * 16
        assert [s.value for s in list(found[-1].attributes["operand_strides"])[3]] == [length * rows, 0, rows, 1]
    torch._dynamo.reset()


def test_causal() -> None:
    (call,) = traced(whole("cpu", lower), 6, 6).graph.find_nodes(
        op="call_function", target=torch.ops.cuesta.attention.default
    )
    assert call.args[3:5] == (None, True)


def test_its_subgraph_goes() -> None:
    targets = {str(n.target) for n in traced(whole("cpu", lower), 6, 6).graph.nodes if n.op == "call_function"}
    assert targets == {"cuesta.attention.default", "<built-in function getitem>"}


@pytest.mark.parametrize(("mask", "sizes"), [(lower, (4, 6)), (lambda length, keys: ~lower(length, keys), (6, 6))])
def test_left_alone(mask: Callable[[int, int], torch.Tensor], sizes: tuple[int, int]) -> None:
    (call,) = traced(whole("cpu", mask), *sizes).graph.find_nodes(
        op="call_function", target=torch.ops.cuesta.attention.default
    )
    assert isinstance(call.args[3], torch.fx.Node)
    assert call.args[4] is False


@pytest.mark.parametrize("target", ["cpu", "tt"])
def test_a_dynamic_graph(target: str) -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, lower(q.shape[2], k.shape[2]))

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", options={"target": target}, dynamic=True, fullgraph=True)
    for length in (5, 7):
        inputs = [torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3)]
        result = compiled(*inputs)
        torch.testing.assert_close(result, function(*inputs))
        grads = torch.autograd.grad(result.sum(), inputs)
        torch.testing.assert_close(grads, torch.autograd.grad(function(*inputs).sum(), inputs))
    torch._dynamo.reset()
