"""Lists torch's core ATen overloads (`torch.Tag.core`), and why some are not compiled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch

import cuesta.frontend.aten  # noqa: F401  registers the rules
from cuesta.dialects.cuesta import pointwise
from cuesta.frontend.aten.called import CALLED
from cuesta.frontend.decompositions.table import decompositions
from cuesta.frontend.rules import find_rule
from cuesta.torch_private.ops import OpOverload, all_op_names, is_composite, overload_name, schema_of

#: Packet → why no kernel computes it; frontend/aten/called.py has more. Products and convolutions are not listed: they
#: have rules, and run in a library where that is faster.
_NOT_COMPILED = {
    "_local_scalar_dense": "its result is a Python number: it runs between programs",
    "nonzero": "its result's size depends on the data: it runs between programs",
    "resize_": "it changes the size of memory in place: AOTAutograd removes it, or it runs between programs",
    **dict.fromkeys(
        ("sym_is_contiguous", "sym_numel", "sym_size", "sym_storage_offset", "sym_stride"),
        "a number known from the sizes; nothing is computed",
    ),
}


def overloads(tag: torch.Tag) -> Iterator[OpOverload]:
    """Every ATen overload that torch has tagged so."""
    for name in all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if namespace == "aten" and hasattr(torch.ops.aten, packet):
            op = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if op is not None and tag in op.tags:
                yield op


def is_compiled(op: OpOverload) -> bool:
    """Whether calls of the overload become ops of the dialect: by a rule, a pointwise table row, or a decomposition."""
    composite = is_composite(op)
    packet = schema_of(op).name.removeprefix("aten::")
    known = find_rule(op) is not None or packet in pointwise.BY_NAME
    return (known or composite or op in decompositions()) and why_not(op) is None


def why_not(op: OpOverload) -> str | None:
    """Why calls of the overload are not compiled to kernels; None if unknown."""
    packet = schema_of(op).name.removeprefix("aten::")
    called = {name: reason for reason, names in CALLED.items() for name in names}
    return _NOT_COMPILED.get(packet) or called.get(packet) or called.get(f"{packet}.{overload_name(op)}")


def core_section() -> str:
    """The section of docs/op_coverage.md about the core overloads."""
    every = list(overloads(torch.Tag.core))
    called: defaultdict[str, list[str]] = defaultdict(list)
    for op in every:
        if not is_compiled(op):
            called[why_not(op) or "no reason recorded"].append(str(op).removeprefix("aten.").removesuffix(".default"))
    compiled = len(every) - sum(map(len, called.values()))
    lines = [
        "## Core ATen",
        "",
        f"Of the {len(every)} overloads that torch tags as core, {compiled} become ops of the dialect: by a rule, by a "
        "row, or by what they are taken apart into. Of those, products and convolutions run in a library where that is "
        "faster, and a call that its rule declines says why in the report. The others, and why they have no kernel:",
        "",
        "| overload | why |",
        "|---|---|",
    ]
    for reason, names in sorted(called.items(), key=lambda item: min(item[1])):
        lines.append(f"| {', '.join(f'`{name}`' for name in sorted(names))} | {reason} |")
    return "\n".join(lines)
