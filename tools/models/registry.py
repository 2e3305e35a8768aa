"""Lists the model cases."""

from __future__ import annotations

from cuesta.tools.models.case import ModelCase
from cuesta.tools.models.densenet import densenet
from cuesta.tools.models.lstm import lstm
from cuesta.tools.models.resnet import resnet
from cuesta.tools.models.transformer import bert, bert_encoder, gpt2, llama, vit

MODELS = (
    ModelCase(
        "resnet18",
        small=lambda _: resnet((1, 1, 1, 1), deep=False, width=16, classes=10, batch=4, pixels=64),
        full=lambda _: resnet((2, 2, 2, 2), deep=False),
    ),
    ModelCase(
        "resnet50",
        small=lambda _: resnet((1, 1, 2, 1), deep=True, width=16, classes=10, batch=4, pixels=64),
        full=lambda _: resnet((3, 4, 6, 3), deep=True),
    ),
    ModelCase(
        "densenet121",
        small=lambda _: densenet((2, 2, 2, 2), growth=8, classes=10, batch=4, pixels=64),
        full=lambda _: densenet((6, 12, 24, 16)),
    ),
    ModelCase(
        "bert",
        small=lambda p: bert(layers=2, hidden=128, vocabulary=512, length=32, dropout=p),
        full=lambda p: bert(dropout=p),
        has_dropout=True,
    ),
    ModelCase(
        "bert_encoder",
        small=lambda p: bert_encoder(layers=2, hidden=128, vocabulary=512, length=32, dropout=p),
        full=lambda p: bert_encoder(dropout=p),
        has_dropout=True,
    ),
    ModelCase(
        "gpt2",
        small=lambda p: gpt2(layers=2, hidden=128, vocabulary=512, batch=2, length=32, dropout=p),
        full=lambda p: gpt2(dropout=p),
        has_dropout=True,
    ),
    ModelCase(
        "vit",
        small=lambda p: vit(layers=2, hidden=128, classes=10, pixels=64, dropout=p),
        full=lambda p: vit(dropout=p),
        has_dropout=True,
    ),
    ModelCase(
        "llama",
        small=lambda _: llama(layers=2, hidden=128, vocabulary=512, length=32),
        full=lambda _: llama(),
    ),
    ModelCase(
        "lstm",
        small=lambda p: lstm(hidden=64, vocabulary=256, batch=3, length=10, dropout=p),
        full=lambda p: lstm(dropout=p),
        has_dropout=True,
    ),
)


def find_model(name: str) -> ModelCase:
    """The case called `name`. Raises KeyError with the valid names."""
    for case in MODELS:
        if case.name == name:
            return case
    raise KeyError(f"no model named {name!r}; the models are {', '.join(case.name for case in MODELS)}")
