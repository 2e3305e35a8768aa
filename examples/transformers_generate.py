"""Hugging Face's `generate` and a pipeline, compiled with cuesta.

    pip install transformers
    python examples/transformers_generate.py

With a static cache `generate` compiles the model's step itself, with the backend that `compile_config` names. One
program answers every step after the prompt. A second one is for all further sizes of the cache. A pipeline takes a
model that was compiled in place. The tokens are eager's, and so are the pipeline's answers. Models and tokenizer are
made here, so nothing is downloaded.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    CompileConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    TextClassificationPipeline,
)

BACKEND = "cuesta"
NEW_TOKENS = 24
TEXTS = ["the old house was near", "a very long road", "not the red tree and not the new river", "far away"]


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = ["[PAD]", "[UNK]", *sorted({word for text in TEXTS for word in text.split()})]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


def make_llama() -> Any:
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=256,
        max_position_embeddings=256,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def make_bert(vocabulary: int) -> Any:
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    return BertForSequenceClassification(config).eval()


def generate(model: Any, prompt: torch.Tensor, **options: Any) -> tuple[torch.Tensor, float]:
    """The tokens that are most probable, and how many of them came a second once all was compiled."""
    options |= {"max_new_tokens": NEW_TOKENS, "do_sample": False, "cache_implementation": "static"}
    for _ in range(2):
        start = time.perf_counter()
        tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
        seconds = time.perf_counter() - start
    return tokens, tokens[:, prompt.shape[1] :].numel() / seconds


def compare_generate() -> None:
    torch.manual_seed(0)
    model = make_llama()
    config = CompileConfig(backend=BACKEND, fullgraph=True)
    config._compile_all_devices = True  # without it transformers compiles on accelerators only
    for length in (7, 12, 20):
        prompt = torch.randint(1000, (2, length))
        expected, eager_speed = generate(model, prompt, disable_compile=True)
        actual, speed = generate(model, prompt, compile_config=config)
        print(f"prompt of {length}: {speed:.0f} tokens/s, eager {eager_speed:.0f}")
        assert actual.equal(expected), f"{actual} and not {expected}"


def compare_pipeline() -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    model = make_bert(len(tokenizer))
    classify = TextClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
    expected = classify(TEXTS)
    model.compile(backend=BACKEND, dynamic=True)
    actual = classify(TEXTS)
    print(f"pipeline: {[answer['label'] for answer in actual]}")
    assert [answer["label"] for answer in actual] == [answer["label"] for answer in expected]
    scores = [torch.tensor([answer["score"] for answer in answers]) for answers in (actual, expected)]
    torch.testing.assert_close(*scores)


def main() -> None:
    compare_generate()
    compare_pipeline()


if __name__ == "__main__":
    main()
