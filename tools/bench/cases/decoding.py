"""Defines the subjects of text made token by token: a decoder's step, a loop of them, and transformers' generate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cuesta.tools.bench.cases.case import BF16, F32, Case, Model
from cuesta.tools.bench.cases.workload import Workload
from cuesta.tools.models import Built
from cuesta.torch_private.dynamo import mark_static_address


@dataclass(frozen=True)
class Decoding(Model):
    """A step of a `Decoder`, or of as many positions as its inputs have; with `steps`, a loop that takes the most
    probable token so many times."""

    steps: int = 0

    def workload(self) -> Workload:
        decoder: Any = self.built.module
        tokens, positions = self.built.inputs["tokens"], self.built.inputs["positions"]
        for cache in decoder.caches():
            # A CUDA graph then takes the cache where it is, and does not copy it.
            mark_static_address(cache)
        first, (batch, count) = int(positions[0]), tokens.shape
        if not self.steps:
            # A prompt is limited by its products.
            reads = decoder.bytes_of_step(first) if count == 1 else 0
            return replace(super().workload(), tokens=batch * count, reads=reads)
        return Workload(
            _most_probable(decoder.eval()),
            (tokens, positions),
            whole=self.whole,
            around=lambda step: _loop(step, tokens, positions, self.steps),
            tokens=batch * self.steps,
            reads=sum(decoder.bytes_of_step(first + step) for step in range(self.steps)),
        )


def _most_probable(decoder: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def step(tokens: Tensor, positions: Tensor) -> Tensor:
        return decoder(tokens, positions).argmax(-1, keepdim=True)

    return step


def _loop(step: Callable[[Tensor, Tensor], Tensor], tokens: Tensor, positions: Tensor, steps: int) -> Tensor:
    """The tokens of `steps` steps, B x steps. A step takes the token of the one before."""
    positions, found = positions.clone(), []
    for _ in range(steps):
        torch.compiler.cudagraph_mark_step_begin()
        # A CUDA graph overwrites the token in the next step.
        tokens = step(tokens, positions).clone()
        positions += 1
        found.append(tokens)
    return torch.cat(found, 1)


@dataclass(frozen=True)
class Generation(Model):
    """transformers' `generate` with its static cache: `steps` tokens after the inputs' prompt, the most probable ones.
    The prompt runs in eager, as transformers has it; the contender compiles the step."""

    steps: int = 0

    def workload(self) -> Workload:
        model: Any = self.built.module.eval()

        def forward(**inputs: Any) -> Any:
            return model(**inputs)

        batch, length = self.built.inputs["input_ids"].shape
        return Workload(
            forward,
            (),
            whole=self.whole,
            around=self._generate,
            tokens=batch * self.steps,
            reads=sum(_bytes_of_step(model, batch, length + step) for step in range(self.steps)),
        )

    def _generate(self, step: Callable[..., Any]) -> Tensor:
        from transformers import CompileConfig

        model: Any = self.built.module
        # Without it transformers compiles on accelerators only.
        config = CompileConfig()
        config._compile_all_devices = True
        prompt = self.built.inputs["input_ids"]

        def marked(**inputs: Any) -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            return step(**inputs)

        # transformers asks the model for its compiled step.
        model.get_compiled_call = lambda _: marked
        try:
            tokens = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=self.steps,
                do_sample=False,
                cache_implementation="static",
                compile_config=config,
            )
        finally:
            del model.get_compiled_call
        return tokens[:, prompt.shape[1] :]


def _bytes_of_step(model: Any, batch: int, position: int) -> int:
    """Bytes that a step of transformers' Llama reads at least, as `Decoder.bytes_of_step` counts them."""
    config, table = model.config, model.get_input_embeddings().weight
    is_whole = model.get_output_embeddings().weight is table
    weights = sum(x.nbytes for x in model.parameters() if is_whole or x is not table)
    row = 0 if is_whole else config.hidden_size
    cached = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * position
    return weights + batch * (row + cached) * table.element_size()


def decoding(
    name: str,
    build: Callable[[], Built],
    dtype: torch.dtype = BF16,
    *,
    steps: int = 0,
    stand_in: Callable[[], Built] | None = None,
) -> Case:
    """The case of a decoder that computes in `dtype`. A loop of `steps` is judged by the tokens of the `stand_in`, in
    float32."""
    judged = None if stand_in is None else partial(_made, Decoding, stand_in, F32, steps)
    return Case(name, partial(_made, Decoding, build, dtype, steps), stand_in=judged)


def generation(name: str, build: Callable[[], Built], stand_in: Callable[[], Built], *, steps: int) -> Case:
    """The case of transformers' `generate` in bf16, judged by the tokens of the `stand_in`, in float32."""
    judged = partial(_made, Generation, stand_in, F32, steps)
    return Case(name, partial(_made, Generation, build, BF16, steps), stand_in=judged)


def _made(
    kind: type[Decoding] | type[Generation], build: Callable[[], Built], dtype: torch.dtype, steps: int
) -> Decoding | Generation:
    built = build()
    return kind(replace(built, module=built.module.to(dtype)), "eval", steps=steps)
