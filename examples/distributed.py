"""Data-parallel training in several processes over gloo: DDP, then FSDP2 with its parameters sharded.

    torchrun --nproc-per-node 2 examples/distributed.py
    python examples/distributed.py

Without torchrun the program starts two processes itself. Both ways give the parameters that one process gives on the
whole batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

BACKEND = "cuesta"
PROCESSES = 2  # without torchrun
STEPS = 3
ROWS = 4  # of a batch, for each process


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4))


def batch(step: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(ROWS * dist.get_world_size(), 16, generator=torch.Generator().manual_seed(step))
    return x, x[:, :4].argmax(1)


def train(model: nn.Module, compiled: Callable[[Tensor], Tensor], part: slice) -> None:
    """Trains on this process's part of each batch; gradients are means, so they are those of the whole."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x, labels = batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(compiled(x[part]), labels[part]).backward()
        optimizer.step()


def whole(parameter: Tensor) -> Tensor:
    """A parameter with all of its shards."""
    return (parameter.full_tensor() if isinstance(parameter, DTensor) else parameter).detach()


def work() -> None:
    """What each process does, once it knows of the others."""
    torch.set_num_threads(1)
    rank = dist.get_rank()
    part = slice(rank * ROWS, (rank + 1) * ROWS)

    alone = make_model()
    train(alone, alone, slice(None))

    ddp = DistributedDataParallel(make_model())
    train(ddp, torch.compile(ddp, backend=BACKEND), part)

    sharded = make_model()
    for layer in sharded:
        fully_shard(layer)
    fully_shard(sharded)
    train(sharded, torch.compile(sharded, backend=BACKEND), part)

    for name, model in (("DDP", ddp), ("FSDP2", sharded)):
        for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(whole(ours), theirs.detach())
        if rank == 0:
            print(f"{name}: {dist.get_world_size()} processes trained as one does")
    dist.barrier()  # none leaves while another still works with it
    dist.destroy_process_group()


def work_as(rank: int, store: str) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(store, PROCESSES), rank=rank, world_size=PROCESSES)
    work()


def main() -> None:
    if dist.is_torchelastic_launched():  # by torchrun, which tells the process of the others in its environment
        dist.init_process_group("gloo")
        work()
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work_as, (f"{folder}/store",), nprocs=PROCESSES)


if __name__ == "__main__":
    main()
