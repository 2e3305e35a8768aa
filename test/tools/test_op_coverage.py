"""The survey of torch's operators: a sample of it, and that it sees what is wrong. `make op-coverage` runs all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cuesta.tools.op_coverage import check as judge
from cuesta.tools.op_coverage.__main__ import main
from cuesta.tools.op_coverage.check import Checked, Verdict, check, count
from cuesta.tools.op_coverage.entries import Unit, spread
from cuesta.tools.op_coverage.positions import name_equals
from cuesta.tools.op_coverage.sample import Sample
from cuesta.tools.op_coverage.survey import Record, read_records
from cuesta.tools.op_coverage.table import render

#: About 0.3 s each.
UNITS = [
    *(Unit(entry, "f32") for entry in ("add", "cumsum", "nn.functional.glu", "nn.functional.dropout", "index_put")),
    *(Unit(entry, "f32") for entry in ("var_mean", "scatter_reduce.amax", "as_strided_scatter", "linalg.qr")),
    *(Unit(entry, "bf16") for entry in ("logsumexp", "nn.functional.group_norm", "addcdiv")),
    *(Unit(entry, "int64") for entry in ("floor_divide", "bitwise_left_shift", "argmax")),
    *(Unit(entry, "bool") for entry in ("sum", "where", "logical_xor")),
    *(Unit(entry, "complex64") for entry in ("mul", "fft.fft2", "view_as_real")),
    *(Unit(entry, "f32", target="tt") for entry in ("log_softmax", "gather")),
]

#: What the survey has found wrong, by the position of the sample.
FOUND = [
    (Unit("as_strided.partial_views", "f32"), 2),
    (Unit("nn.functional.max_unpool2d.grad", "f32"), 10),
    (Unit("empty_strided", "f32"), 3),
    (Unit("broadcast_to", "complex64"), 0),
    (Unit("cartesian_prod", "complex64"), 2),
    (Unit("take", "bf16"), 4),
    (Unit("linalg.qr", "f32"), 35),
    (Unit("select_scatter", "f32", "gaps"), 0),
    (Unit("logaddexp", "complex64"), 0),
]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.entry}-{unit.dtype}-{unit.target}")
def test_operator(unit: Unit) -> None:
    _assert_right(check(unit, count(unit) - 1))


@pytest.mark.parametrize(
    ("unit", "index"), FOUND, ids=lambda x: f"{x.entry}-{x.dtype}" if isinstance(x, Unit) else str(x)
)
def test_what_was_wrong_once(unit: Unit, index: int) -> None:
    _assert_right(check(unit, index))


def _assert_right(checked: Checked) -> None:
    assert (checked.forward, checked.gradient) in {("right", "right"), ("right", None)}, checked.message


def _judged(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Tensor], Tensor], function: Callable[..., Any] = torch.sin
) -> tuple[Verdict, Verdict | None]:
    """The verdicts where what cuesta compiled gives `spoil` of what eager gives."""

    def compiled(function: Callable[..., Any], sample: Sample, train: bool, backend: str, *options: Any) -> Any:
        change = spoil if backend == "cuesta" else torch.Tensor.clone
        return sample.copy().run(lambda x: change(function(x)), train)

    monkeypatch.setattr(judge, "_compiled", compiled)
    x = torch.linspace(0, 1, 6).reshape(2, 3).requires_grad_()
    checked = judge._check(Unit("sin", "f32"), Sample((x,), {}, lambda y: y), function)
    return checked.forward, checked.gradient


def _raise(_: Tensor) -> Tensor:
    raise ValueError("no")


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * 1.01


@pytest.mark.parametrize(
    ("spoil", "verdicts"),
    [
        (torch.Tensor.clone, ("right", "right")),
        (lambda y: y * (1 + 1e-7), ("right", "right")),
        (lambda y: y * 1.001, ("wrong", "wrong")),
        (lambda y: y.t().contiguous().t(), ("wrong", "right")),
        (lambda y: y.double(), ("wrong", "right")),
        (lambda y: y / 0, ("wrong", "wrong")),
        (_WrongGradient.apply, ("right", "wrong")),
        (_raise, ("raised", "raised")),
    ],
    ids=["same", "rounding", "value", "strides", "dtype", "infinity", "gradient", "error"],
)
def test_what_is_wrong_is_seen(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Tensor], Tensor], verdicts: tuple[Verdict, Verdict]
) -> None:
    assert _judged(monkeypatch, spoil) == verdicts


EQUALS = torch.tensor([[2.0, 1, 2, 3], [1, 1, 1, torch.nan]])


@pytest.mark.parametrize(
    ("entry", "got", "same"),
    [
        ("sort", [[1, 2, 0, 3], [2, 0, 1, 3]], True),
        ("sort", [[1, 0, 0, 3], [0, 1, 2, 3]], False),  # one of them twice
        ("sort", [[1, 0, 3, 2], [0, 1, 2, 3]], False),
        ("sort", [[1, 0, 2, 4], [0, 1, 2, 3]], False),
        ("mul", [[1, 2, 0, 3], [2, 0, 1, 3]], False),
    ],
)
def test_positions_may_be_of_equal_numbers(entry: str, got: list[list[int]], same: bool) -> None:
    sample = Sample((EQUALS,), {}, lambda y: y)
    want = EQUALS.sort(stable=True).indices
    assert name_equals(entry, sample, "result[1]", torch.tensor(got), want) == same
    stable = Sample((EQUALS,), {"stable": True}, lambda y: y)
    assert not name_equals(entry, stable, "result[1]", torch.tensor(got), want)


def test_the_position_of_one() -> None:
    sample = Sample((EQUALS, 2), {}, lambda y: y)
    assert name_equals("kthvalue", sample, "result[1]", torch.tensor([2, 0]), torch.tensor([0, 2]))
    assert not name_equals("kthvalue", sample, "result[1]", torch.tensor([1, 0]), torch.tensor([0, 2]))


def test_what_eager_refuses_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _judged(monkeypatch, torch.Tensor.clone, _raise) == ("refused", None)


def test_copies_share_memory_as_the_sample_does() -> None:
    x = torch.arange(6.0)
    sample = Sample((x[1:5:2], x.expand(2, 6)), {"other": torch.ones(3, dtype=torch.complex64).conj()}, lambda y: y)
    copy = sample.copy()
    assert [y.stride() for y in copy.args] == [(2,), (0, 1)]
    assert copy.kwargs["other"].is_conj()
    copy.args[0].fill_(9)
    assert copy.args[1][0].tolist() == [0, 9, 2, 9, 4, 5]
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert sample.wide().args[0].dtype == torch.float64


def test_samples_are_spread_evenly() -> None:
    assert spread(3, 6) == [0, 1, 2]
    assert spread(1440, 4) == [0, 479, 959, 1439]
    assert spread(5, None) == [0, 1, 2, 3, 4]


def test_a_survey_is_recorded_and_makes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records, page = tmp_path / "records.jsonl", tmp_path / "page.md"
    choice = ["--ops", "^abs$", "--dtypes", "int64", "--samples", "1", "--processes", "1"]
    assert main([*choice, "--records", str(records), "--page", str(page)]) == 0
    (record,) = read_records(records).values()
    assert record.forward == {"right": 1}
    assert "| int64 | 1 | 100.00% | 0 | 0 | 0 |" in page.read_text()
    assert main([*choice, "--records", str(records), "--resume"]) == 0
    assert len(records.read_text().splitlines()) == 1
    assert capsys.readouterr().out.endswith("called in ATen: nothing\n")


def test_the_page_names_what_is_not_right() -> None:
    record = Record(Unit("sin", "f32"), 3)
    record.add(0, Checked("right", "right", graphs=2))
    record.add(1, Checked("right", "wrong", "off", 2, [("aten.sin.default", "a tensor without elements")]))
    record.add(2, Checked("raised", "raised", "PassFailed"))
    page = render([record], 3)
    assert "| `sin` | **2/3, 1 raised** | **1/3, 1 wrong, 1 raised** |  |  |  |  | 67% | no elements |" in page
    assert "- `sin` f32 sample 1: right, gradient wrong: off" in page
    assert "- `sin` f32 sample 2: raised, gradient raised: PassFailed" in page


def test_the_page_says_which_rows_are_of_another_commit() -> None:
    records = [Record(Unit(name, "f32"), 1, commit="1234567") for name in ("abs", "sin", "cos")]
    assert "\n3 entries, commit 1234567.\n" in render(records, 1)
    records[1].commit = "89abcde"
    assert "\n3 entries, commit 1234567; of 89abcde: `sin`.\n" in render(records, 1)
