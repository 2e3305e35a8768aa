"""What the memory plan says that ATen's attention takes on a CPU, with one thread and with two."""

from __future__ import annotations

import pytest
import torch

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.passes.infra.pipeline import Pipeline

CALL = "aten._scaled_dot_product_flash_attention_for_cpu"


def peak_of(call: str, shape: str, operands: int, results: list[str]) -> int:
    """Bytes of a function that makes one call on tensors of one shape and returns what it gives."""
    kind = f"memref<{shape}xf32>"
    arguments = [f"%a{i}" for i in range(operands)]
    typed = ", ".join(f"{name}: {kind}" for name in arguments)
    returned = ", ".join(f"%r#{i}" for i in range(len(results)))
    dtypes = ", ".join(['"f32"'] * (operands + len(results)))
    positions = ", ".join(map(str, range(len(results))))
    text = f"""
        func.func @graph({typed}) -> ({", ".join(results)}) {{
          %r:{len(results)} = "host.aten"({", ".join(arguments)}) {{overload = "{call}.default", args = "[]",
              dtypes = [{dtypes}], positions = [{positions}], reason = "", route = "shim"}}
            : ({", ".join([kind] * operands)}) -> ({", ".join(results)})
          return {returned} : {", ".join(results)}
        }}"""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        Pipeline.parse("builtin.module(plan-memory)").run(module)
        (function,) = module.body.operations
        return int(function.attributes["cuesta.memory"]["peak"].value)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_thread_has_a_block_of_scores(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    kind, sums = "memref<2x12x128x64xf32>", "memref<2x12x128xf32>"
    result, logsumexp = 4 * 2 * 12 * 128 * 64, 4 * 2 * 12 * 128
    # As measured: 24832 bytes a thread; gradients 32768, and 128.
    forward = result + logsumexp + threads * 24832
    assert peak_of(CALL, "2x12x128x64", 3, [kind, sums]) == forward
    assert peak_of(CALL, "2x12x128x64", 3, [kind]) == forward
    assert peak_of(f"{CALL}_backward", "2x12x128x64", 6, [kind] * 3) == 3 * result + threads * 32768 + 128


def test_blocks_are_larger_for_more_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    for length, forward, backward in ((197, 67328, 101120), (256, 82432, 131328), (1024, 591872, 1049600)):
        shape, sums = f"1x12x{length}x64", f"memref<1x12x{length}xf32>"
        kind, result = f"memref<{shape}xf32>", 4 * 12 * length * 64
        assert peak_of(CALL, shape, 3, [kind, sums]) == result + 4 * 12 * length + forward
        assert peak_of(f"{CALL}_backward", shape, 6, [kind] * 3) == 3 * result + backward
