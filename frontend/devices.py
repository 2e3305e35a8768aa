"""Finds the device of a graph's tensors, and with it the target for which the graph is compiled."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from cuesta.errors import OptionError, Unsupported
from cuesta.frontend.graph_key import attribute
from cuesta.targets import CPU, Target, parse_target
from cuesta.torch_private.fake_tensors import FakeTensor


def place_graph(gm: torch.fx.GraphModule, wanted: Target | None) -> tuple[Target, torch.device]:
    """The target of a graph (`wanted` if given) and the device on which the graph runs.

    A graph with any tensor on a GPU runs on that GPU; ATen computes its CPU tensors. One without tensors, as a break
    may leave between two others, runs on the CPU. Raises Unsupported where the graph has tensors on two GPUs or on a
    device that cuesta does not compile for, OptionError where `wanted` is for another type of device.
    """
    device = find_device(gm)
    if wanted is None:
        return target_of_device(device), device
    if wanted.device_type == device.type:
        return wanted, device
    if next(_tensors(gm), None) is None:
        return CPU, device
    hint = "; cuesta.compile_for makes kernels for a GPU that is elsewhere" if wanted.gpu else ""
    raise OptionError(
        f"option 'target' is {wanted}, for tensors on {wanted.device_type}; the graph's are on {device}{hint}"
    )


def find_device(gm: torch.fx.GraphModule) -> torch.device:
    """The one GPU that tensors of the graph are on, or the CPU where none is."""
    found = {t.device for t in _tensors(gm) if t.device.type != "cpu"}
    if len(found) > 1:
        raise Unsupported(f"the graph's tensors are on several devices: {', '.join(sorted(map(str, found)))}")
    device = found.pop() if found else torch.device("cpu")
    if device.type not in ("cpu", "cuda", "xpu"):
        raise Unsupported(f"the graph's tensors are on {device}; cpu, cuda and xpu are valid")
    return device


def takes_fake_tensors(gm: torch.fx.GraphModule) -> bool:
    """Whether Dynamo captured a graph from a call with fake tensors, which have no memory for a program to read.
    Dynamo's guards keep calls with real tensors from reaching such a graph."""
    captured = (node.meta.get("grapharg") for node in gm.graph.find_nodes(op="placeholder"))
    return any(isinstance(argument.example, FakeTensor) for argument in captured if argument is not None)


def target_of_device(device: torch.device) -> Target:
    """The target of a device of this machine. Raises Unsupported for a GPU that kernels cannot be made for."""
    if device.type == "cpu":
        return CPU
    if device.type == "xpu":
        return Target("xpu")
    if torch.version.hip:
        arch = torch.cuda.get_device_properties(device).gcnArchName
        name = f"hip:{arch.partition(':')[0]}"
    else:
        major, minor = torch.cuda.get_device_capability(device)
        name = f"cuda:{major}{minor}"
    try:
        return parse_target(name)
    except OptionError as problem:
        raise Unsupported(f"kernels cannot be made for {torch.cuda.get_device_name(device)}: {problem}") from None


def _tensors(gm: torch.fx.GraphModule) -> Iterator[torch.Tensor]:
    for node in gm.graph.nodes:
        value = attribute(gm, str(node.target)) if node.op == "get_attr" else node.meta.get("val")
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, torch.Tensor):
                yield item
