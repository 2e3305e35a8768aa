"""Makes the page of the ops: the cuesta dialect by family, and the ops that take operands of any number and type."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence

from cuesta._mlir import ext
from cuesta.dialects.cuesta import pointwise, reduction
from cuesta.dialects.cuesta.dialect import Cuesta, Operation
from cuesta.dialects.fields import Field
from cuesta.dialects.open_op import OPEN_OPS, OpenOp
from cuesta.tools.markdown import prose, table

_ABOUT = """# Ops

The ops that cuesta defines, in the order of their modules. Most pointwise ops and reductions are defined as rows of a
table, and are in a table here, too. An attribute in brackets may be absent. [Adding an op](../adding_an_op.md) is a
recipe. [Operators of torch](../op_coverage.md) says for each of ATen's operators what becomes of it.
"""

#: Families of ops that MLIR takes as unregistered: prefix → what they are.
_OPEN = {
    "aten": "Calls into ATen, in the graph.",
    "kernel": "Kernels that are whole: attention, and writes at computed positions.",
    "host": "The host program: memory, launches, calls into ATen.",
    "tt": "Triton IR, as cuesta builds it for GPUs.",
}


def ops_page() -> str:
    """The page's Markdown."""
    modules: dict[str, list[type[Operation]]] = {}
    for kind in Cuesta.operations:
        modules.setdefault(kind.__module__, []).append(kind)
    parts = [_ABOUT]
    for module, kinds in sorted(modules.items()):
        title = module.rpartition(".")[2].replace("_", " ")
        parts.append(f"\n## {title.capitalize()}\n\n{prose(sys.modules[module].__doc__ or '')}\n")
        parts += [_described(kind) for kind in kinds if kind not in _ROW_OPS]
        parts += [_ROWS[module]()] if module in _ROWS else []
    parts += [_open_family(prefix, about) for prefix, about in _OPEN.items()]
    return "".join(parts)


def _described(kind: type[Operation]) -> str:
    operands = [f.name for f in kind._fields if isinstance(f, ext.OperandDef)]
    results = [f.name for f in kind._fields if isinstance(f, ext.ResultDef)]
    required = {f.name for f in kind._fields}
    return _op(kind.OPERATION_NAME, operands, kind.FIELDS, required, results, inspect.getdoc(kind))


def _op(
    name: str,
    operands: Sequence[str],
    fields: Iterable[Field[object]],
    required: Iterable[str],
    results: Sequence[str],
    about: str | None,
) -> str:
    spelled = [f"{f.name}: {type(f).__name__}" for f in fields]
    attributes = ", ".join(text if text.partition(":")[0] in required else f"[{text}]" for text in spelled)
    line = f"({', '.join(operands)})" + (f" {{{attributes}}}" if attributes else "") + f" → {', '.join(results)}"
    return f"\n### {name}\n\n`{line}`\n\n{prose(about or '')}\n"


def _pointwise_rows() -> str:
    rows = [[f"`cuesta.{r.name}`", str(r.arity), ", ".join(r.params), r.promotion, str(r.cost)] for r in pointwise.ROWS]
    head = ["op", "operands", "attributes", "computing type", "cost in additions"]
    return f"\n### Rows of the table\n\n{table(head, rows)}"


def _reduction_rows() -> str:
    rows = [[f"`cuesta.{r.name}`", getattr(r.reference, "__name__", "")] for r in reduction.ROWS]
    return f"\n### Rows of the table\n\n{table(['op', 'reference in torch'], rows)}"


_ROW_OPS = frozenset([*pointwise.OPS.values(), *reduction.OPS.values()])
_ROWS = {pointwise.__name__: _pointwise_rows, reduction.__name__: _reduction_rows}


def _open_family(prefix: str, about: str) -> str:
    kinds = [kind for name, kind in OPEN_OPS.items() if name.partition(".")[0] == prefix]
    return f"\n## {prefix}\n\n{about}\n" + "".join(map(_open_op, kinds))


def _open_op(kind: type[OpenOp]) -> str:
    about = inspect.getdoc(kind)
    inherited = about == inspect.getdoc(OpenOp)
    return _op(kind.OPERATION_NAME, ["…"], kind.FIELDS.values(), kind.REQUIRED, ["…"], None if inherited else about)
