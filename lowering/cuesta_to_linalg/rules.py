"""Holds the registry of lowering rules from cuesta to linalg, which the modules beside this one fill."""

from __future__ import annotations

from collections.abc import Callable

from cuesta._mlir import ir
from cuesta.lowering.cuesta_to_linalg.builder import LinalgBuilder

#: A rule stores the lowered results of an op in the builder's `squeezed` or `full`.
Rule = Callable[[LinalgBuilder, ir.Operation], None]

RULES: dict[str, Rule] = {}


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Registers the rule for the ops `cuesta.<name>`."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            assert f"cuesta.{name}" not in RULES, f"two lowering rules for cuesta.{name}"
            RULES[f"cuesta.{name}"] = rule
        return rule

    return enter
