"""Hugging Face's Trainer with torch_compile_backend="cuesta".

pip install transformers accelerate
python examples/hf_trainer.py
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import cuesta

BACKEND = "cuesta"


def make_model() -> Any:
    config = BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def make_data(count: int) -> list[dict[str, torch.Tensor]]:
    """Sentences whose label says whether the first word is among the first fifty."""
    sentences = torch.randint(100, (count, 16))
    return [{"input_ids": s, "labels": (s[0] < 50).long()} for s in sentences]


def train(backend: str | None) -> tuple[list[float], float]:
    """The loss of each step, and the loss of an evaluation."""
    torch.manual_seed(0)
    model, data = make_model(), make_data(40)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=4,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=8,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
            torch_compile=backend is not None,
            torch_compile_backend=backend,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data)
        trainer.train()
        evaluated = trainer.evaluate()["eval_loss"]
    return [log["loss"] for log in trainer.state.log_history if "loss" in log], evaluated


def main() -> None:
    cuesta.register_with_accelerate()
    expected = train(None)
    actual = train(BACKEND)
    print(cuesta.report())
    print(f"losses {actual[0]}, evaluated {actual[1]}; eager {expected[0]}, {expected[1]}")
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    main()
