"""Attention under a mask that is a tensor, as a kernel of ours in the interpreter: right, and no more than is shown."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta

BATCH, HEADS, QUERIES, KEYS = 2, 2, 128, 192
TRIANGLE = torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(KEYS - QUERIES)
LENGTHS = torch.arange(KEYS) < torch.tensor([[70], [KEYS]])
WINDOW = (torch.arange(QUERIES)[:, None] - torch.arange(KEYS)).abs() < 9


def hiding_rows() -> Tensor:
    shown = (LENGTHS[:, None, None, :] & TRIANGLE).clone()
    shown[:, :, 3:5] = False
    return shown


def added(shown: Tensor, hidden: float) -> Tensor:
    return torch.zeros(shown.shape, dtype=torch.bfloat16).masked_fill(~shown, hidden)


MASKS: dict[str, Callable[[], Tensor]] = {
    "of all": lambda: TRIANGLE,
    "of each text": lambda: TRIANGLE.expand(BATCH, 1, QUERIES, KEYS),
    "lengths": lambda: LENGTHS[:, None, None, :],
    "lengths, expanded": lambda: LENGTHS[:, None, None, :].expand(BATCH, 1, QUERIES, KEYS),
    "of each head": lambda: WINDOW & (torch.rand(BATCH, HEADS, QUERIES, KEYS) < 0.7),
    "rows that see nothing": hiding_rows,
    "holes": lambda: torch.rand(BATCH, 1, QUERIES, KEYS) < 0.1,
    "added": lambda: torch.randn(BATCH, HEADS, QUERIES, KEYS, dtype=torch.bfloat16),
    "-inf": lambda: added(TRIANGLE, -math.inf),
    "the lowest number": lambda: added(hiding_rows(), torch.finfo(torch.bfloat16).min),
}


def factors() -> list[Tensor]:
    return [torch.randn(BATCH, HEADS, length, 32, dtype=torch.bfloat16) for length in (QUERIES, KEYS, KEYS)]


def compiled(**options: object) -> Callable[..., Tensor]:
    torch._dynamo.reset()
    return torch.compile(
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        backend="cuesta",
        options={"target": "tt", "cache": False, **options},
    )


def reference(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.double()
    return torch.ops.aten._safe_softmax(scores, -1) @ v.double()


def calls() -> list[str]:
    return [call["op"] for graph in cuesta.report().graphs for call in graph.aten_calls]


@pytest.mark.parametrize("name", MASKS)
def test_attention_under_a_mask_is_one_kernel(name: str) -> None:
    torch.manual_seed(0)
    given = [*factors(), MASKS[name]()]
    with torch.no_grad():
        found = compiled()(*given)
    torch.testing.assert_close(found.double(), reference(*given), rtol=2e-2, atol=2e-2)
    assert calls() == []
    (graph,) = cuesta.report().graphs
    attention = [kernel for kernel in graph.kernels if "attention" in kernel["ops"]]
    assert len(attention) == 1 and {"ge", "le"} <= {*attention[0]["ops"]} and len(graph.kernels) <= 3


def attention_under(mask: Callable[..., Tensor], *given: Tensor) -> list[str]:
    """The ops of attention's kernel under a mask that is computed of `given`, where the results are right."""
    q, k, v = factors()
    torch._dynamo.reset()
    call = torch.compile(
        lambda *given: F.scaled_dot_product_attention(q, k, v, attn_mask=mask(*given)),
        backend="cuesta",
        options={"target": "tt", "cache": False},
    )
    with torch.no_grad():
        torch.testing.assert_close(call(*given).double(), reference(q, k, v, mask(*given)), rtol=2e-2, atol=2e-2)
    (graph,) = cuesta.report().graphs
    (attention,) = [kernel for kernel in graph.kernels if "attention" in kernel["ops"]]
    ops: list[str] = [op for kernel in graph.kernels for op in kernel["ops"]]
    return ["bounded"] * ("implied_where" in attention["ops"]) + ["read"] * ("gt" in ops)


TABLE = torch.randn(32, HEADS, dtype=torch.bfloat16)
DISTANCES = torch.randint(0, 32, (QUERIES, KEYS))


def learned(table: Tensor, distances: Tensor) -> Tensor:
    return table[distances.view(-1)].view(QUERIES, KEYS, HEADS).permute(2, 0, 1)[None]


def test_a_table_of_learned_numbers_hides_nothing() -> None:
    assert attention_under(learned, TABLE, DISTANCES) == []


def test_a_mask_that_turns_out_to_hide_nothing() -> None:
    def mask(table: Tensor, distances: Tensor) -> Tensor:
        shown = (torch.arange(QUERIES)[:, None] + 0 >= 0).expand(BATCH, 1, QUERIES, KEYS)
        return torch.where(shown, learned(table, distances), torch.finfo(torch.bfloat16).min)

    assert attention_under(mask, TABLE, DISTANCES) == []


def test_what_a_choice_hides_is_read_off_its_condition() -> None:
    def mask(table: Tensor, distances: Tensor, lengths: Tensor) -> Tensor:
        shown = (torch.arange(KEYS) < lengths[:, None])[:, None, None, :]
        return torch.where(shown, learned(table, distances), torch.finfo(torch.bfloat16).min)

    assert attention_under(mask, TABLE, DISTANCES, torch.tensor([70, KEYS])) == ["bounded"]


LEFT = torch.arange(KEYS) >= torch.tensor([[100], [0]])
HIDDEN = torch.finfo(torch.bfloat16).min


def chosen(shown: Tensor, branch: Tensor | float = 0.0, hidden: float = HIDDEN) -> Tensor:
    return torch.where(shown, branch, hidden).to(torch.bfloat16)


TWO_TERMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "added": lambda first, second: chosen(first) + chosen(second),
    "chosen": lambda first, second: chosen(first, chosen(second)),
    "by -inf": lambda first, second: chosen(first, chosen(second, hidden=-math.inf)),
    "multiplied": lambda first, second: chosen(first) + (1 - second.to(torch.bfloat16)) * HIDDEN,
    "subtracted": lambda first, second: torch.sub(chosen(first | second), chosen(first), alpha=0),
}


@pytest.mark.parametrize("name", TWO_TERMS)
def test_rows_of_which_one_term_hides_what_another_shows(name: str) -> None:
    """The keys of a row that sees nothing weigh the same, of those behind the last that the first term shows, too."""

    def mask(triangle: Tensor, shown: Tensor) -> Tensor:
        return TWO_TERMS[name](triangle[None, None], shown[:, None, None, :])

    assert "bounded" in attention_under(mask, torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(), LEFT)


def test_an_argument_may_hide_keys() -> None:
    assert attention_under(lambda mask: mask * 1.0, MASKS["-inf"]()) == ["bounded", "read"]


def test_keys_behind_the_last_that_is_shown_are_not_read() -> None:
    """A weight of 0 times nan would be nan."""
    q, k, v = factors()
    shown = torch.ones(BATCH, 1, QUERIES, KEYS, dtype=torch.bool)
    shown[..., 64:] = False
    shown[1, :, :64] = False
    shown[1, :, :64, 128:] = True
    v[0, :, 64:] = v[1, :, 64:128] = math.nan
    with torch.no_grad():
        found = compiled()(q, k, v, shown)
    expected = reference(q, k, v.nan_to_num(), shown)
    torch.testing.assert_close(found.double(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("options", [{"attention": "library"}, {"bitwise_eager": True}], ids=["library", "bitwise"])
def test_the_library_stays_where_it_is_asked_for(options: dict[str, object]) -> None:
    given = [*factors(), TRIANGLE]
    with torch.no_grad():
        found = compiled(**options)(*given)
    torch.testing.assert_close(found.double(), reference(*given), rtol=2e-2, atol=2e-2)
    assert not any("attention" in k["ops"] and "ge" in k["ops"] for g in cuesta.report().graphs for k in g.kernels)


def test_a_training_step_keeps_the_librarys_kernels() -> None:
    q, k, v = (x.requires_grad_() for x in factors())
    compiled()(q, k, v, TRIANGLE).sum().backward()
    assert any("attention" in call for call in calls())


@pytest.mark.parametrize(
    ("queries", "keys", "ours"), [(49, 49, True), (16, 36, True), (8, 49, False), (49, 192, False)]
)
def test_windows_of_one_block(queries: int, keys: int, ours: bool) -> None:
    torch.manual_seed(0)
    given = [torch.randn(BATCH, HEADS, length, 32, dtype=torch.bfloat16) for length in (queries, keys, keys)]
    given.append(torch.randn(1, HEADS, queries, keys, dtype=torch.bfloat16))
    with torch.no_grad():
        found = compiled()(*given)
    torch.testing.assert_close(found.double(), reference(*given), rtol=2e-2, atol=2e-2)
    assert (calls() == []) is ours
