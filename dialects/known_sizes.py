"""Records which sizes of a module are known in every call: an attribute of the top module.

    module attributes {cuesta.zeros = ["(s0 % 2)"]} { … tensor<?xf32, ["2*(s0 // 2)"]> … }

The program is used only for calls in which these sizes are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from cuesta._mlir import ir
from cuesta.sizes.facts import rules
from cuesta.sizes.rules import follow

ZEROS = "cuesta.zeros"


def mark_zeros(module: ir.Module, zeros: Sequence[str]) -> None:
    """Records which sizes are 0."""
    if zeros:
        module.operation.attributes[ZEROS] = ir.ArrayAttr.get([ir.StringAttr.get(zero) for zero in zeros])


def zeros_of(module: ir.Module) -> tuple[str, ...]:
    """The sizes in a module that are 0."""
    attributes = module.operation.attributes
    return tuple(a.value for a in attributes[ZEROS]) if ZEROS in attributes else ()


def known_sizes(module: ir.Module) -> AbstractContextManager[object]:
    """A context in which sizes are computed and compared with what is known of the module's sizes."""
    return follow(rules(zeros_of(module)))
