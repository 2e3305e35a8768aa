"""The suite of small models: a slice of it, each way of running one, and what it says of one that is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cuesta.tools.model_suite.__main__ import main
from cuesta.tools.model_suite.check import WAYS, Counts, check_case, run_eval
from cuesta.tools.model_suite.page import render
from cuesta.tools.models import SUITE, SuiteCase

#: Small ones of different kinds; the others run with CUESTA_FULL=1, and by the command.
SLICE = ("a recommender (embedding bags)", "control flow by data")


@pytest.mark.parametrize("case", SUITE, ids=lambda case: case.name)
def test_a_model(case: SuiteCase) -> None:
    if case.name not in SLICE and os.environ.get("CUESTA_FULL") != "1":
        pytest.skip("slow: set CUESTA_FULL=1 to run it")
    verdicts = check_case(case)
    assert {way: v.wrong for way, v in verdicts.items() if v.wrong} == {}
    assert [reason for v in verdicts.values() for reason in v.counts.fallbacks] == []
    assert [reason for v in verdicts.values() for reason in v.counts.specialised] == []
    if not case.breaks:
        graphs = {way: v.counts.graphs for way, v in verdicts.items() if "sizes" in way}
        # One for the first batch size and one for all others; one for all where the program says which dim it is.
        assert graphs == {way: 1 if "marked" in way else 2 for way in graphs}


def test_every_kind_is_there() -> None:
    names = " ".join(case.name for case in SUITE)
    kinds = (
        *("BERT", "GPT-2", "Llama", "T5", "ViT", "Whisper", "Mixtral", "CLIP", "ResNet", "MobileNetV3"),
        *("EfficientNet", "ConvNeXt", "Swin", "DenseNet", "LSTM", "recommender", "U-Net", "FFT", "control flow"),
    )
    assert [kind for kind in kinds if kind not in names] == []


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Another value where it is compiled: what a wrong compiler gives.
        return x * (2.5 if torch.compiler.is_compiling() else 2.0)


def test_a_wrong_result_is_found_and_said(tmp_path: Path) -> None:
    case = SuiteCase("doubled", Doubled, lambda batch: {"x": torch.randn(batch, 4)})
    verdicts = check_case(case, {"eval": run_eval})
    assert verdicts["eval"].wrong is not None
    page = render([(case, dict.fromkeys(WAYS, verdicts["eval"]))])
    assert "| doubled | **wrong** |" in page


def test_what_raises_is_wrong() -> None:
    def fail(case: SuiteCase, options: Mapping[str, Any]) -> Counts:
        raise ValueError("no such weights")

    assert check_case(SUITE[0], {"eval": fail})["eval"].wrong == "ValueError: no such weights"


def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--models", "nonsense"])
    assert "BERT" in capsys.readouterr().err
