"""Holds the registry of lowering rules from cuesta to linalg, which the modules beside this one fill."""

from __future__ import annotations

from collections.abc import Callable

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import Operation
from cuesta.lowering.cuesta_to_linalg.builder import LinalgBuilder

#: A rule stores the lowered results of an op in the builder's `squeezed` or `full`.
Rule = Callable[[LinalgBuilder, ir.Operation], None]

#: The rule of each op, by the op's full name.
RULES: dict[str, Rule] = {}


def lowers(*kinds: type[Operation]) -> Callable[[Rule], Rule]:
    """Registers the rule for the ops of these classes."""

    def enter(rule: Rule) -> Rule:
        for kind in kinds:
            assert kind.OPERATION_NAME not in RULES, f"two lowering rules for {kind.OPERATION_NAME}"
            RULES[kind.OPERATION_NAME] = rule
        return rule

    return enter
