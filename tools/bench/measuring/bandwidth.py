"""Measures how fast a device's memory is read, which limits what reads much and computes little."""

from __future__ import annotations

import torch

from cuesta.tools.bench.measuring.device import release, sample
from cuesta.tools.bench.measuring.limits import Meter, cache_sizes
from cuesta.tools.bench.measuring.loops import make_loops

GPU_BYTES = 2 << 30
"""Bytes that a GPU reads: many times its caches."""
SAMPLES = 7
"""The best of them counts: disturbances only slow a reading down."""
CALLS = 5


def read_rate(where: torch.device) -> float:
    """Bytes a second: on a CPU those of a loop of vectors, with torch's number of threads; on a GPU those of torch's
    sum over a large tensor."""
    if where.type == "cpu":
        threads = torch.get_num_threads()
        return Meter(make_loops(), threads).memory_read(cache_sizes(threads))
    block = torch.ones(GPU_BYTES // 4, dtype=torch.float32, device=where)
    seconds = min(sample(where, block.sum, CALLS).device for _ in range(SAMPLES))
    size = block.nbytes
    del block
    release(where)
    return size / seconds
