"""Symbolic sizes: arithmetic agrees with Python's, text is read back, comparisons are noted."""

from __future__ import annotations

import operator
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from cuesta.errors import Undecided
from cuesta.sizes import Number, Size, assumptions, at, estimate, hint, hints, parse, symbol, symbols
from cuesta.sizes.facts import primitive, rules
from cuesta.sizes.rules import Rule, follow

S0, S1 = symbol("s0"), symbol("s1")

_OPERATORS: list[Callable[[Number, Number], Number]] = [operator.add, operator.sub, operator.mul]
_BY_NUMBER: list[Callable[[Number, Number], Number]] = [operator.floordiv, operator.mod]
_LEAVES = st.one_of(st.integers(-5, 70), st.sampled_from([S0, S1]))


def _joined(inner: st.SearchStrategy[Number]) -> st.SearchStrategy[Number]:
    by_number = st.builds(lambda f, x, n: f(x, n), st.sampled_from(_BY_NUMBER), inner, st.integers(1, 64))
    by_size = st.builds(lambda f, x, s: f(x, s * 2), st.sampled_from(_BY_NUMBER), inner, st.sampled_from([S0, S1]))
    return st.one_of(st.builds(lambda f, x, y: f(x, y), st.sampled_from(_OPERATORS), inner, inner), by_number, by_size)


@settings(max_examples=300)
@given(st.recursive(_LEAVES, _joined, max_leaves=8), st.integers(1, 99), st.integers(1, 99))
def test_text_and_value_agree(size: Number, s0: int, s1: int) -> None:
    values = {"s0": s0, "s1": s1}
    assert at(size, values) == eval(str(size), {}, dict(values))
    assert parse(str(size)) == size
    assert symbols(size) <= set(values)


@settings(max_examples=200)
@given(_LEAVES, _LEAVES, st.integers(1, 99), st.integers(1, 99), st.sampled_from([*_OPERATORS, *_BY_NUMBER]))
def test_operators_mean_pythons(x: Number, y: Number, s0: int, s1: int, op: Callable[[Number, Number], Number]) -> None:
    values = {"s0": s0, "s1": s1}
    if op in _BY_NUMBER and (y == 0 or (isinstance(y, int) and y < 0)):
        return
    assert at(op(x, y), values) == op(at(x, values), at(y, values))


def test_equal_means_for_every_call() -> None:
    assert 64 * S0 // 64 == S0 and (64 * S0) % 64 == 0
    assert (64 * S0 + 3) // 64 == S0
    assert S0 * S1 // S0 == S1 and S0 - S0 == 0 and isinstance(S0 - S0 + 5, int)
    assert (S0 + 1) // 2 != S0 // 2 and S0 != 8 and S0 != S1
    assert hash(S0 + S1) == hash(S1 + S0)


def test_hints_are_for_costs() -> None:
    with hints({"s0": 8}):
        assert hint(S0 * 3 + 1) == 25 and estimate([S0, 4]) == 32
    assert hint(7) == 7


def test_a_comparison_is_noted_or_refused() -> None:
    with pytest.raises(Undecided, match="s0 - 8"):
        _ = S0 < 8
    with hints({"s0": 9}), assumptions() as noted:
        assert not S0 < 8 and S0 > 3 and S0 >= 9 and S0 <= 9
        assert max(S0, 4) == S0
    # S0 > 3 says that 3 - s0 is negative, and so on.
    assert noted["s0 - 8"] is False and noted["-s0 + 3"] is True and noted["s0 - 9"] is False


@pytest.mark.parametrize("use", [bool, int, float, lambda size: [0][size]])
def test_no_number_is_made_of_a_size(use: Callable[[Size], object]) -> None:
    with pytest.raises(Undecided, match="s0"):
        use(S0)


@pytest.mark.parametrize("text", ["s0 +", "f(s0)", "s0 ** 2", "1.5", "s0[0]", "__import__('os')", "s0 if s1 else 2"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse(text)


def test_quotients_of_sums_that_come_out() -> None:
    assert (3 * S0 - 6) // (S0 - 2) == 3
    assert (3 * S0 - 6) % (S0 - 2) == 0
    assert (S0 * S1 + 2 * S0 - 2 * S1 - 4) // (S1 + 2) == S0 - 2
    assert str((S0 + 1) // (S1 + 1)) == "((s0 + 1) // (s1 + 1))"


ZEROS = [
    ("(s0 % 2)", {"s0": 6}),
    ("(s0 % 6)", {"s0": 12}),
    ("(s0 // 2) - 1", {"s0": 3}),
    ("s0*s1 - 64", {"s0": 4, "s1": 16}),
    ("(s0 % s1)", {"s0": 15, "s1": 5}),
    ("((s0 + s1) % 4)", {"s0": 5, "s1": 7}),
    ("((s0*s1) % 8)", {"s0": 6, "s1": 20}),
    ("2*(s0 // 2) - s0", {"s0": 8}),
    ("s0 + s1 - 12", {"s0": 5, "s1": 7}),
    ("s0 - s1", {"s0": 5}),
]


@settings(max_examples=400)
@given(st.recursive(_LEAVES, _joined, max_leaves=8), st.sampled_from(ZEROS))
def test_what_is_known_to_be_0_changes_no_value(size: Number, zero: tuple[str, dict[str, int]]) -> None:
    text, values = zero
    values = {"s1": 5, **values}
    with follow(rules((text,))):
        known = parse(str(size))
        assert parse(str(known)) == known
    assert at(known, values) == at(size, values)


@pytest.mark.parametrize(
    ("zeros", "left", "right"),
    [
        (["(s0 // 2) - 1"], "s1*(s0 // 2)", "s1"),
        (["(s0 % 2)"], "2*(s0 // 2)", "s0"),
        (["2*(s0 // 2) - s0"], "s0 // (s0 // 2)", "2"),
        (["(s0 % 2)", "(s0 % 3)"], "s0 // 2", "3*(s0 // 6)"),
        (["(s0 % s1)"], "s1*(s0 // s1)", "s0"),
        (["((s0*s1) % 8)"], "(s0*s1) // ((s0*s1) // 8)", "8"),
        (["((s0 + s1) % 4)"], "4*((s0 + s1) // 4)", "s0 + s1"),
        (["s0*s1 - 64"], "(s0*s1) // 8", "8"),
        (["(s0 % 2)", "(s0 // 2) - 3"], "s0", "6"),
        (["s0 + s1 - 8"], "4*s0 + s0*s1 + 4*s1", "s0*s1 + 32"),
        (["s0 + s1 - s2", "s3 - s2"], "2*s0 + 3*s1", "s1 + 2*s3"),
        # The number of whole blocks of 4 in s0, (s0 - s0 % 4) // 4, is 0.
        (["s0 - 4*((s0 - (s0 % 4)) // 4) - (s0 % 4)", "((s0 - (s0 % 4)) // 4)"], "s0 - (s0 % 4) + 8", "8"),
    ],
)
def test_what_is_known_to_be_0_makes_sizes_equal(zeros: list[str], left: str, right: str) -> None:
    assert parse(left) != parse(right)
    with follow(rules(tuple(zeros))):
        assert parse(left) == parse(right)
    assert parse(left) != parse(right)


def test_two_that_divide_each_other_come_to_an_end() -> None:
    with follow(rules(("(s0 % s1)", "(s1 % s0)"))):
        assert at(parse("s0*s1 + s1"), {"s0": 3, "s1": 3}) == 12


def test_rules_that_go_round_in_a_circle_come_to_an_end() -> None:
    """A view of s0 elements as s1 x s2 rows of s3: torch asks for the quotients, one after the other."""
    zeros = ("-s1*s2*s3 + s0", "(s0 % s1)", "((s0 // s1) % s2)", "s3 - (s0 // (s1*s2))", "-s3*s2 + (s0 // s1)")
    found = rules(zeros)
    with follow(found):
        assert [parse(zero) for zero in zeros] == [0] * len(zeros)
        assert parse("s0 // s1") == parse("s2*s3")
        assert parse("s0") == parse("s1*s2*s3")


def test_steps_are_counted_where_rules_go_round_in_a_circle() -> None:
    circle = Rule(("s0",), 1, ((("s1",), 1),)), Rule(("s1",), 1, ((("s0",), 1),))
    with follow(circle):
        assert parse("2*s0") in (2 * symbol("s0"), 2 * symbol("s1"))


def test_primitive() -> None:
    assert primitive(parse("2*s0*s1 - 4*s1*(s0 // 2)")) == parse("s0 - 2*(s0 // 2)")
    assert primitive(parse("s0*(s0 // 2)")) == parse("s0 // 2")
    assert primitive(7) == 7
