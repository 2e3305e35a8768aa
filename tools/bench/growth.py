"""Measures compile times of growing graphs: `python -m cuesta.tools.bench.growth [--most-ops 10000] [--threads 2]`.

The graphs are stacks of equal transformer layers, and chains of elementwise ops with a mean after every 50 of their
steps. Each is compiled with an empty cache. Reported are seconds of processor time, on which other work of the machine
has little influence: of the whole first call, of cuesta's part in it, and both for a layer or for a thousand ops.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import cuesta
from cuesta.driver import backend
from cuesta.driver.compile_graph import compile_aten_graph
from cuesta.tools.bench.reporting.table import seconds, table

LAYERS = (1, 4, 16, 64)
OPS = (1000, 2000, 5000, 10000)
HEADER = ("graph", "first call", "of it cuesta's", "for each", "of it cuesta's")


def layers(count: int) -> tuple[Callable[..., Tensor], Tensor]:
    """A transformer encoder of `count` equal layers, and its input."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=False), torch.randn(2, 16, 64)


def ops(count: int) -> tuple[Callable[..., Tensor], Tensor]:
    """A chain of about `count` ops on one tensor, and its input."""

    def chain(x: Tensor) -> Tensor:
        for n in range(count // 2):
            x = torch.sin(x) + 0.001 * n
            if n % 50 == 49:
                x = x - x.mean(-1, keepdim=True)
        return x

    return chain, torch.randn(16, 64)


def measure(function: Callable[..., Tensor], x: Tensor) -> tuple[float, float]:
    """Seconds of processor time, over all threads, of the first call and of cuesta's part in it: compiling the graphs
    that AOTAutograd passes. Raises AssertionError if the result differs from eager's or a graph ran op by op."""
    torch.compiler.reset()
    ours = 0.0

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal ours
        start = time.process_time()
        boxed = compile_aten_graph(*args, **kwargs)
        ours += time.process_time() - start
        return boxed

    with torch.no_grad(), mock.patch.object(backend, "compile_aten_graph", timed):
        start = time.process_time()
        result = torch.compile(function, backend="cuesta", fullgraph=True, options={"cache": False})(x)
        whole = time.process_time() - start
        torch.testing.assert_close(result, function(x), rtol=1e-3, atol=1e-3)
    graphs = cuesta.report().graphs
    assert not any(graph.fallback for graph in graphs)
    return whole, ours


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m cuesta.tools.bench.growth", description="compile times of graphs of growing size"
    )
    parser.add_argument("--most-ops", type=int, default=max(OPS), metavar="N", help="leave out longer chains")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), metavar="N")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    measure(*layers(1))  # loads what every compile needs
    rows = []
    for count, unit, make in (*((n, 1, layers) for n in LAYERS), *((n, 1000, ops) for n in OPS)):
        if make is ops and count > arguments.most_ops:
            continue
        name = f"{count} {make.__name__}"
        print(name, file=sys.stderr, flush=True)
        times = measure(*make(count))
        rows.append([name, *map(seconds, times), *(seconds(t * unit / count) for t in times)])
    print(table(HEADER, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
