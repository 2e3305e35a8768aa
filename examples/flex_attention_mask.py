"""Attention with a mask and a score function of one's own: documents packed in a row, causal, with ALiBi.

    python examples/flex_attention_mask.py
    python examples/flex_attention_mask.py --length 8192 --device cuda --dtype bfloat16

A batch of texts of several lengths is one row without padding. `flex_attention` is told in Python which keys a query
sees, those before it in its own document, and what a score becomes: ALiBi takes off more the further a key is away.
cuesta compiles it with what is around it, so nothing runs between its programs, which its report shows. Printed are the
tokens per second of eager, cuesta and Inductor.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import cuesta

HEADS, DEPTH = 8, 64
DOCUMENTS = (0.1, 0.25, 0.05, 0.4, 0.2)  # the parts of the row


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tokens per second of attention over packed documents.")
    parser.add_argument("--length", type=int, default=1024, help="tokens in the row")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--backends", nargs="+", default=["cuesta", "inductor"], help="what to measure beside eager")
    return parser.parse_args()


def make_attention(length: int, device: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """q, k, v [1, HEADS, length, DEPTH] → the attention of packed documents."""
    ends = (torch.tensor(DOCUMENTS).cumsum(0) * length).round().to(device)
    document = torch.bucketize(torch.arange(length, device=device), ends, right=True)  # of each token
    slopes = 2.0 ** -torch.arange(1, HEADS + 1, device=device)

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (document[query] == document[key])

    def alibi(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return score + slopes[head] * (key - query)

    blocks = create_block_mask(visible, None, None, length, length, device=device)
    return lambda q, k, v: flex_attention(q, k, v, score_mod=alibi, block_mask=blocks)


def measure(backend: str, attend: Callable[..., Tensor], inputs: list[Tensor]) -> Tensor | None:
    """Prints tokens per second, and returns the result, or None where Inductor does not run: on a CPU it needs a C++
    compiler."""
    torch._dynamo.reset()  # else a call also checks the guards of the backends before
    compiled = attend if backend == "eager" else torch.compile(attend, backend=backend, fullgraph=True)
    seconds = []
    try:
        for _ in range(6):
            start = time.perf_counter()
            result = compiled(*inputs).cpu()  # which waits for a GPU
            seconds.append(time.perf_counter() - start)
    except RuntimeError as error:
        if backend != "inductor":
            raise
        print(f"inductor does not run here: {str(error).splitlines()[0]}")
        return None
    print(f"{backend}: {inputs[0].shape[2] / min(seconds):.0f} tokens/s")
    return result


def steps_in_python() -> list[str]:
    """What ran between cuesta's programs."""
    graphs = cuesta.report().as_dict()["graphs"]
    return [call["op"] for graph in graphs for call in graph["aten_calls"] if call["route"] == "Python"]


def main() -> None:
    arguments = read_arguments()
    warnings.filterwarnings("ignore", "flex_attention called without torch.compile")  # it is eager that is measured
    torch.manual_seed(0)
    shape = (1, HEADS, arguments.length, DEPTH)
    dtype = getattr(torch, arguments.dtype)
    inputs = [torch.randn(shape, device=arguments.device, dtype=dtype) for _ in range(3)]
    attend = make_attention(arguments.length, arguments.device)
    expected = measure("eager", attend, inputs)
    for backend in arguments.backends:
        actual = measure(backend, attend, inputs)
        if backend == "cuesta":
            # A result is a mean of values of about 1. Eager rounds the weights of narrow types, a kernel does not.
            step = torch.finfo(dtype).eps
            torch.testing.assert_close(actual, expected, rtol=max(1.3e-6, step), atol=max(1e-5, step))
            assert steps_in_python() == []


if __name__ == "__main__":
    main()
