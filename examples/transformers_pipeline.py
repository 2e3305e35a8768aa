"""Hugging Face's text classification pipeline, with a model that was compiled in place.

    pip install transformers
    python examples/transformers_pipeline.py

One program serves texts of all lengths. The answers are eager's. Model and tokenizer are made here, so nothing is
downloaded.
"""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, TextClassificationPipeline

BACKEND = "cuesta"
TEXTS = ["the old house was near", "a very long road", "not the red tree and not the new river", "far away"]


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = ["[PAD]", "[UNK]", *sorted({word for text in TEXTS for word in text.split()})]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


def make_model(vocabulary: int) -> Any:
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    return BertForSequenceClassification(config).eval()


def main() -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer))
    classify = TextClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
    expected = classify(TEXTS)
    model.compile(backend=BACKEND, dynamic=True)
    actual = classify(TEXTS)
    print(f"pipeline: {[answer['label'] for answer in actual]}")
    assert [answer["label"] for answer in actual] == [answer["label"] for answer in expected]
    scores = [torch.tensor([answer["score"] for answer in answers]) for answers in (actual, expected)]
    torch.testing.assert_close(*scores)


if __name__ == "__main__":
    main()
