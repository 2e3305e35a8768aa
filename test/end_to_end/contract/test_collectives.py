"""Functional collectives (contract, point 15): two processes over gloo, in forward and backward; tensor
parallel layers made of them."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing import assert_close

import cuesta
from cuesta.tools.bench.backends import fallbacks

WORLD = 2

#: Torch's names, and those that 2.11 has for the same.
all_gather = getattr(collectives, "all_gather_single", None) or collectives.all_gather_tensor
reduce_scatter = getattr(collectives, "reduce_scatter_single", None) or collectives.reduce_scatter_tensor


def gathered(x: Tensor) -> Tensor:
    total = collectives.all_reduce(torch.sin(x), "sum", dist.group.WORLD)
    everyone = all_gather(total * (dist.get_rank() + 1), 0, dist.group.WORLD)
    return reduce_scatter(everyone * 2, "sum", 0, dist.group.WORLD) + 1


def differentiable(x: Tensor, w: Tensor) -> Tensor:
    whole = collectives.all_gather_tensor_autograd(x @ w, 0, dist.group.WORLD)
    return torch.tanh(whole).sum()


def in_place(x: Tensor) -> Tensor:
    dist.all_reduce(x)
    return x * 2


def check_tensor_parallel(backend: str) -> None:
    """Two linear layers, columns of the first and rows of the second on each process, trained for a step."""
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    ours = parallelize_module(
        copy.deepcopy(whole), init_device_mesh("cpu", (WORLD,)), {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )
    x = torch.randn(4, 8)
    actual, expected = torch.compile(ours, backend=backend, fullgraph=True)(x), whole(x)
    assert_close(actual, expected)
    for result in (actual, expected):
        result.square().sum().backward()
    for mine, theirs in zip(ours.parameters(), whole.parameters(), strict=True):
        assert_close(mine.grad.full_tensor(), theirs.grad)


def work(store: str, backend: str, rank: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank, world_size=WORLD)
    torch.manual_seed(rank)
    x, w = torch.randn(4, 4), torch.ones(4, 4, requires_grad=True)
    for f, arguments in ((gathered, (x,)), (differentiable, (x, w))):
        compiled = torch.compile(f, backend=backend, fullgraph=True)
        actual, expected = compiled(*arguments), f(*arguments)
        assert_close(actual, expected)
        if expected.requires_grad:
            assert_close(torch.autograd.grad(actual, w), torch.autograd.grad(expected, w))
    mine, theirs = x.clone(), x.clone()
    assert_close(torch.compile(in_place, backend=backend)(mine), in_place(theirs))
    assert_close(mine, theirs)
    check_tensor_parallel(backend)
    if backend == "cuesta":
        assert not fallbacks(), fallbacks()
        calls = {c["op"] for g in cuesta.report().as_dict()["graphs"] for c in g["aten_calls"]}
        assert {"_c10d_functional.all_reduce.default", "_c10d_functional.wait_tensor.default"} <= calls
    dist.destroy_process_group()


def test_two_processes(backend: str, tmp_path: Path) -> None:
    """This file is the program of each."""
    command = [sys.executable, __file__, str(tmp_path / "store"), backend]
    processes = [subprocess.Popen([*command, str(rank)], stderr=subprocess.PIPE, text=True) for rank in range(WORLD)]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [p.returncode for p in processes] == [0] * WORLD, "\n".join(errors)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    # A thread of torch's gloo may drop the last tensor while the interpreter ends, which aborts the process, with
    # backend "eager" as well. So the process ends without the interpreter's end.
    sys.stderr.flush()
    os._exit(0)
