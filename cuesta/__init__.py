"""cuesta: an MLIR compiler for PyTorch. `torch.compile(model, backend="cuesta")`."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuesta.driver.audit import audit
    from cuesta.driver.background.service import wait_for_tiers
    from cuesta.driver.entry import compile_fx_graph as backend
    from cuesta.export.compile_exported import compile
    from cuesta.export.compile_for import compile_for
    from cuesta.export.exported_program import load
    from cuesta.frontend.capture.accelerate import register_with_accelerate
    from cuesta.options import list_mode_options, list_options
    from cuesta.reports.compile_report import report

if "torch" in sys.modules:  # Triton's workers run without torch, and start in a tenth of the time
    from cuesta.torch_versions import names_may_be_lost

    with names_may_be_lost():
        import cuesta.cache_artifacts  # registers our kind of artifact for torch.compiler.load_cache_artifacts
        import cuesta.own_ops  # noqa: F401  registers torch.ops.cuesta

__version__ = "0.1.0"

__all__ = [
    "audit",
    "backend",
    "compile",
    "compile_for",
    "list_mode_options",
    "list_options",
    "load",
    "register_with_accelerate",
    "report",
    "wait_for_tiers",
]

#: Public name → its module and attribute. Loaded on first use, so that importing one part costs no more than that part.
_LAZY = {
    "audit": ("cuesta.driver.audit", "audit"),
    "backend": ("cuesta.driver.entry", "compile_fx_graph"),
    "compile": ("cuesta.export.compile_exported", "compile"),
    "compile_for": ("cuesta.export.compile_for", "compile_for"),
    "list_mode_options": ("cuesta.options", "list_mode_options"),
    "list_options": ("cuesta.options", "list_options"),
    "load": ("cuesta.export.exported_program", "load"),
    "register_with_accelerate": ("cuesta.frontend.capture.accelerate", "register_with_accelerate"),
    "report": ("cuesta.reports.compile_report", "report"),
    "wait_for_tiers": ("cuesta.driver.background.service", "wait_for_tiers"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"cuesta has no {name!r}; it has {', '.join(sorted(_LAZY))}")
    module, attribute = _LAZY[name]
    try:
        value = getattr(importlib.import_module(module), attribute)
    except (AttributeError, ImportError) as error:
        from cuesta.torch_versions import raise_unsupported

        raise_unsupported(f"cuesta.{name}", error)
        raise
    globals()[name] = value
    return value
