"""A Llama generates text with transformers' `generate`: the tokens per second of eager, cuesta and Inductor.

    pip install transformers
    python examples/text_generation.py
    python examples/text_generation.py --hidden 2048 --layers 16 --dtype bfloat16 --device cuda

With a static cache `generate` compiles the model's step itself, with the backend that `compile_config` names, and runs
the prompt in eager. One program answers every step after the first prompt. A second one is for all further sizes of the
cache. In f32 the tokens are eager's. In narrower types two logits may be as good as equal, and rounding then decides.
The weights are random, so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM

VOCABULARY = 1000
LENGTHS = (7, 12, 20)  # of the prompts
NEW_TOKENS = 24


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tokens per second of a Llama with random weights.")
    parser.add_argument("--hidden", type=int, default=256, help="a multiple of 64, the width of a head")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--backends", nargs="+", default=["cuesta", "inductor"], help="what to measure beside eager")
    return parser.parse_args()


def make_model(hidden: int, layers: int) -> Any:
    heads = hidden // 64
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 4),
        intermediate_size=3 * hidden,
        max_position_embeddings=256,
        eos_token_id=None,  # so that no text ends early
        bos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def options_for(backend: str) -> dict[str, Any]:
    """How `generate` is told the backend."""
    if backend == "eager":
        return {"disable_compile": True}
    config = CompileConfig(backend=backend, fullgraph=True)  # its mode is reduce-overhead
    config._compile_all_devices = True  # without it transformers compiles on accelerators only
    return {"compile_config": config}


def generate(model: Any, prompt: Tensor, options: dict[str, Any]) -> tuple[Tensor, float]:
    """The tokens that are most probable, and how many of them come in a second, once all is compiled."""
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        tokens = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            cache_implementation="static",
            **options,
        )
        tokens = tokens[:, prompt.shape[1] :].cpu()  # which waits for a GPU
        seconds.append(time.perf_counter() - start)
    return tokens, tokens.numel() / min(seconds)


def generate_all(model: Any, prompts: Sequence[Tensor], backend: str) -> list[Tensor] | None:
    """The tokens for each prompt, or None where Inductor does not run: on a CPU it needs a C++ compiler."""
    torch._dynamo.reset()  # else a step also checks the guards of the backends before
    try:
        results = [generate(model, prompt, options_for(backend)) for prompt in prompts]
    except RuntimeError as error:
        if backend != "inductor":
            raise
        print(f"inductor does not run here: {str(error).splitlines()[0]}")
        return None
    print(f"{backend}: {', '.join(f'{speed:.0f}' for _, speed in results)} tokens/s")
    return [tokens for tokens, _ in results]


def main() -> None:
    arguments = read_arguments()
    torch.manual_seed(0)
    model = make_model(arguments.hidden, arguments.layers).to(arguments.device, getattr(torch, arguments.dtype))
    prompts = [torch.randint(VOCABULARY, (1, length), device=arguments.device) for length in LENGTHS]
    print(f"{NEW_TOKENS} tokens after prompts of {', '.join(map(str, LENGTHS))}, in {arguments.dtype}")
    expected = generate_all(model, prompts, "eager")
    for backend in arguments.backends:
        actual = generate_all(model, prompts, backend)
        if backend == "cuesta" and arguments.dtype == "float32":
            torch.testing.assert_close(actual, expected)


if __name__ == "__main__":
    main()
