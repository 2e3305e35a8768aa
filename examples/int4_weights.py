"""A Llama with weights of 4 or 8 bits: their bytes, and the tokens per second beside those of weights in bf16.

    pip install transformers
    python examples/int4_weights.py
    python examples/int4_weights.py --bits 8
    python examples/int4_weights.py --hidden 2048 --layers 16 --device cuda

A step at batch 1 reads every weight once and does little else, so fewer bytes can be less time, if the weights are
widened where they are multiplied and not in memory. The layers do it in plain torch, without an op of their own. The
logits are those of a model that has the widened weights. The weights are random, so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

VOCABULARY = 1000
TOKENS = 32
GROUP = 32  # elements along K with one scale


class Int8Linear(nn.Module):
    """y = (x @ valuesᵀ) * scale, with values [N, K] in int8 and a scale for each row [N]."""

    values: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        scale = weight.abs().amax(1) / 127
        self.register_buffer("scale", scale)
        self.register_buffer("values", (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8))

    def widened(self, dtype: torch.dtype) -> Tensor:
        return self.values.to(dtype) * self.scale[:, None].to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.values.to(x.dtype)) * self.scale  # faster than to scale the weight


class Int4Linear(nn.Module):
    """y = x @ weightᵀ, with two elements of the weight in a byte [N, K / 2], the first in its low bits, and a scale for
    each group of a row [N, K / GROUP]."""

    packed: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        groups = weight.view(weight.shape[0], -1, GROUP)
        scale = groups.abs().amax(2) / 7
        values = ((groups / scale[:, :, None]).round().clamp(-7, 7) + 8).to(torch.uint8).view_as(weight)
        self.register_buffer("scale", scale)
        self.register_buffer("packed", values[:, ::2] | values[:, 1::2] << 4)

    def widened(self, dtype: torch.dtype) -> Tensor:
        values = torch.stack([self.packed & 15, self.packed >> 4], 2).to(torch.int8) - 8
        return (values.view(*self.scale.shape, GROUP).to(dtype) * self.scale[:, :, None].to(dtype)).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.widened(x.dtype))


LAYERS = {8: Int8Linear, 4: Int4Linear}


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tokens per second of a Llama in bf16, and with narrow weights.")
    parser.add_argument("--bits", type=int, default=4, choices=LAYERS, help="4 in groups, or 8 with a scale a row")
    parser.add_argument("--hidden", type=int, default=512, help="a multiple of 64, the width of a head")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backends", nargs="+", default=["cuesta", "inductor"], help="what to measure beside eager")
    return parser.parse_args()


def make_model(hidden: int, layers: int) -> Any:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=3 * hidden,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def with_linears(model: nn.Module, make: Callable[[Any], nn.Module]) -> Any:
    """A copy of the model, with what `make` makes of each of its linear layers."""
    model = copy.deepcopy(model)
    for name, layer in list(model.named_modules()):
        if isinstance(layer, (nn.Linear, *LAYERS.values())):
            model.set_submodule(name, make(layer))
    return model


def widened_linear(layer: Any) -> nn.Linear:
    """A layer in f32 with a narrow layer's weight. Nothing is rounded: element and scale have 16 bits together."""
    weight = layer.widened(torch.float32)
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    linear.weight = nn.Parameter(weight, requires_grad=False)
    return linear


def megabytes(model: nn.Module) -> float:
    return sum(x.nbytes for x in model.state_dict().values()) / 1e6


@torch.no_grad()
def decode(model: Any, step: Callable[..., Any], tokens: Tensor) -> Tensor:
    """The logits after each token. The tokens are given, so that the logits of several models can be compared."""
    cache = StaticCache(config=model.config, max_cache_len=TOKENS)
    logits = [step(tokens[:, n : n + 1], past_key_values=cache).logits[0, -1] for n in range(TOKENS)]
    return torch.stack(logits).float().cpu()  # which waits for a GPU


def measure(name: str, model: Any, backend: str, tokens: Tensor) -> Tensor | None:
    """Prints tokens per second, and returns the logits, or None where Inductor does not run: on a CPU it needs a C++
    compiler."""
    torch._dynamo.reset()  # else a step also checks the guards of the backends before
    step = model if backend == "eager" else torch.compile(model, backend=backend, fullgraph=True)
    seconds = []
    try:
        for _ in range(4):
            start = time.perf_counter()
            logits = decode(model, step, tokens)
            seconds.append(time.perf_counter() - start)
    except RuntimeError as error:
        if backend != "inductor":
            raise
        print(f"inductor does not run here: {str(error).splitlines()[0]}")
        return None
    print(f"{name} of {megabytes(model):.1f} MB, {backend}: {TOKENS / min(seconds):.0f} tokens/s")
    return logits


def main() -> None:
    arguments = read_arguments()
    torch.manual_seed(0)
    full = make_model(arguments.hidden, arguments.layers).to(arguments.device, torch.bfloat16)
    narrow = with_linears(full, lambda layer: LAYERS[arguments.bits](layer.weight))
    widened = with_linears(narrow, widened_linear).float()
    tokens = torch.randint(VOCABULARY, (1, TOKENS), device=arguments.device)
    for name, model in (("bf16", full), (f"int{arguments.bits}", narrow)):
        logits = {backend: measure(name, model, backend, tokens) for backend in ["eager", *arguments.backends]}
    # Layers round their results to bf16, so logits are off from those of f32 by some 0.01 of their size. Compiled they
    # are rounded at other places. As far off as eager's is right, then, and twice as far leaves room for chance.
    exact = decode(widened, widened, tokens)
    off = {backend: float((one - exact).norm() / exact.norm()) for backend, one in logits.items() if one is not None}
    print("off from f32: " + ", ".join(f"{backend} {distance:.4f}" for backend, distance in off.items()))
    assert off.get("cuesta", 0.0) < 2 * off["eager"]


if __name__ == "__main__":
    main()
