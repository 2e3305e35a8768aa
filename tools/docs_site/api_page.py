"""Makes the page of the Python API, which mkdocstrings fills in from signatures and docstrings."""

from __future__ import annotations

import cuesta
from cuesta import errors

#: What the functions return, beside the functions themselves: a user calls these methods.
_RETURNED = (
    "cuesta.export.exported_program.ExportedProgram",
    "cuesta.reports.audit_result.Audit",
    "cuesta.reports.compile_report.Report",
    "cuesta.export.compile_for.TargetModel",
)


def api_page() -> str:
    """The page's Markdown. mkdocstrings replaces each line that begins with `:::`."""
    raised = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    sections = {
        "Functions": [f"cuesta.{name}" for name in cuesta.__all__],
        "What they return": _RETURNED,
        "Errors": [f"cuesta.errors.{kind.__name__}" for kind in raised],
    }
    text = "".join(
        f"## {title}\n\n" + "".join(f"::: {name}\n\n" for name in names) for title, names in sections.items()
    )
    return (
        "# Python API\n\n"
        '`torch.compile(model, backend="cuesta")` needs no import of cuesta. Everything else is in the package '
        f"`cuesta`.\n\n{text}"
    )
