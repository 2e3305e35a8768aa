"""Graphs on a GPU, traced with fake tensors: which device and target they have, and what is left on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta._mlir import ir
from cuesta.dialects import make_context, verify, walk
from cuesta.errors import OptionError, Unsupported
from cuesta.frontend import devices
from cuesta.frontend.capture import tensor_cores
from cuesta.frontend.devices import find_device, place_graph
from cuesta.frontend.importer import import_graph
from cuesta.targets import CPU, parse_target

H100 = parse_target("cuda:90")
GPU = torch.device("cuda", 0)


def trace(function: Callable[..., Any], *places: tuple[tuple[int, ...], str]) -> torch.fx.GraphModule:
    """The graph of `function` for f32 tensors of these sizes on these devices; nothing is computed."""
    with FakeTensorMode():
        tensors = [torch.empty(sizes, device=device) for sizes, device in places]
        return make_fx(lambda *xs: _as_tuple(function(*xs)), tracing_mode="real")(*tensors)


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def ops_of(gm: torch.fx.GraphModule) -> list[str]:
    """The ops of the imported graph; a call by its overload and its device where that is not the graph's."""
    with make_context():
        module = import_graph(gm, (), H100, GPU).module
        verify(module, "import")
        assert module.operation.attributes["cuesta.target"].value == "cuda:90"
        assert module.operation.attributes["cuesta.device"].value == "cuda:0"
        return [_spell(op) for op in walk(module.operation) if op.name not in ("func.func", "func.return")]


def _spell(op: ir.Operation) -> str:
    if op.name != "aten.call":
        return str(op.name)
    device = f" on {op.attributes['device'].value}" if "device" in op.attributes else ""
    return f"{op.attributes['overload'].value}{device}"


BIG, SCALAR = ((4, 8), "cuda:0"), ((), "cpu")


def test_the_device_is_the_gpu_where_there_is_one() -> None:
    assert find_device(trace(lambda x: x + 1, BIG)) == GPU
    assert find_device(trace(lambda x: x + 1, ((4, 8), "cpu"))) == torch.device("cpu")
    assert find_device(trace(lambda x, s: x + s, BIG, SCALAR)) == GPU
    assert find_device(trace(lambda s: torch.empty(3, device="cuda:1"), SCALAR)) == torch.device("cuda", 1)


def test_the_mode_is_atens() -> None:
    """Of values as frequent as each other a GPU's kernel names any, the CPU's the least."""
    assert "aten.mode.default" in ops_of(trace(lambda x: x.mode(0).values, BIG))


def test_two_gpus_are_unsupported() -> None:
    with pytest.raises(Unsupported, match="several devices: cuda:0, cuda:1"):
        find_device(trace(lambda x: x.to("cuda:1"), BIG))


def test_the_wanted_target_must_fit_the_device() -> None:
    on_gpu, on_cpu = trace(lambda x: x + 1, BIG), trace(lambda x: x + 1, ((2,), "cpu"))
    assert place_graph(on_gpu, H100) == (H100, GPU)
    assert place_graph(on_cpu, parse_target("tt")) == (parse_target("tt"), torch.device("cpu"))
    assert place_graph(on_cpu, None) == (CPU, torch.device("cpu"))
    empty = torch.fx.GraphModule({}, torch.fx.Graph())
    assert place_graph(empty, H100) == (CPU, torch.device("cpu"))
    with pytest.raises(OptionError, match="tensors on cuda; the graph's are on cpu; cuesta.compile_for makes"):
        place_graph(on_cpu, H100)
    with pytest.raises(OptionError, match="tensors on cpu; the graph's are on cuda:0$"):
        place_graph(on_gpu, CPU)


def test_the_target_is_the_capability_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert place_graph(trace(lambda x: x + 1, BIG), None) == (H100, GPU)


def test_a_gpu_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.torch.cuda, "get_device_capability", lambda device: (6, 1))
    monkeypatch.setattr(devices.torch.cuda, "get_device_name", lambda device: "Tesla P40")
    with pytest.raises(Unsupported, match=r"Tesla P40: unknown target 'cuda:61'; the targets are"):
        place_graph(trace(lambda x: x + 1, BIG), None)


def test_ops_on_the_gpu_are_compiled() -> None:
    assert ops_of(trace(lambda x: torch.relu(x + 1), BIG)) == ["cuesta.constant", "cuesta.add", "cuesta.relu"]


def test_a_cast_on_the_gpu_is_compiled() -> None:
    ops = ops_of(trace(lambda x: torch.ops.aten._to_copy(x, dtype=torch.bfloat16), BIG))
    assert ops == ["cuesta.convert"]


@pytest.mark.parametrize(
    ("dtype", "tf32", "expected"),
    [
        (torch.float32, True, "tensor_cores"),
        (torch.float32, False, "full"),
        (torch.bfloat16, False, "tensor_cores"),
        (torch.float64, True, None),
    ],
)
def test_how_cudnn_computes_a_convolution(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, tf32: bool, expected: str | None
) -> None:
    graph = trace(
        lambda x, w: torch.conv2d(x.to(dtype), w.to(dtype)), ((2, 3, 8, 8), "cuda:0"), ((4, 3, 3, 3), "cuda:0")
    )
    monkeypatch.setattr(tensor_cores, "cudnn_allows_tf32", lambda: tf32)
    with make_context():
        module = import_graph(graph, (), H100, GPU).module
        (op,) = [op for op in walk(module.operation) if op.name == "cuesta.convolution"]
        assert (op.attributes["cudnn"].value if "cudnn" in op.attributes else None) == expected


def test_a_scalar_on_the_cpu_is_copied_once() -> None:
    ops = ops_of(trace(lambda x, s: (x + s) * s, BIG, SCALAR))
    assert ops == ["aten._to_copy.default", "cuesta.add", "cuesta.mul"]


def test_a_constant_on_the_cpu_is_made_on_the_gpu() -> None:
    ops = ops_of(trace(lambda x: torch.where(x > 0, x, torch.full((), 2.0)), BIG))
    assert "aten.full.default on cpu" not in ops
    assert "aten._to_copy.default" not in ops
    assert ops[-1] == "cuesta.where"


def test_work_on_the_cpu_is_atens() -> None:
    ops = ops_of(trace(lambda x, s: (x * 2, s + 1), BIG, SCALAR))
    assert ops == ["cuesta.constant", "cuesta.mul", "aten.add.Tensor on cpu"]


def test_what_moves_between_devices_is_atens() -> None:
    ops = ops_of(trace(lambda x: x + torch.arange(8, device="cpu").to("cuda:0"), BIG))
    assert "aten.arange.start_step on cpu" in ops or "aten.arange.default on cpu" in ops
    assert "aten._to_copy.default" in ops
    assert ops[-1] == "cuesta.add"


def test_an_argument_on_the_cpu_says_so() -> None:
    with make_context():
        module = import_graph(trace(lambda x, s: x + s, BIG, SCALAR), (), H100, GPU).module
        attributes = module.body.operations[0].attributes["arg_attrs"]
        assert ["cuesta.device" in a for a in attributes] == [False, True]


def test_writing_to_the_cpu_is_unsupported() -> None:
    def write(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        s.copy_(x.sum().cpu())
        return x + 1

    with make_context(), pytest.raises(Unsupported, match="writes to an argument on the cpu"):
        import_graph(trace(write, BIG, SCALAR), (), H100, GPU)


def test_attentions_lengths_are_numbers() -> None:
    def attend(q: torch.Tensor) -> Any:
        found = torch.ops.aten._scaled_dot_product_flash_attention.default(q.half(), q.half(), q.half())
        return found[0], found[4]

    gm = trace(attend, ((2, 4, 16, 32), "cuda:0"))
    with make_context():
        graph = import_graph(gm, (), H100, GPU)
        verify(graph.module, "import")
    assert [(o.kind, o.value) for o in graph.convention.outputs] == [("tensor", None), ("value", 16)]
