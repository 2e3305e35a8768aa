"""cuesta: an MLIR compiler for PyTorch. `torch.compile(model, backend="cuesta")`."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuesta.compile_report import report
    from cuesta.frontend.accelerate import register_with_accelerate
    from cuesta.frontend.audit import audit
    from cuesta.frontend.backend import compile_fx_graph as backend
    from cuesta.frontend.background import wait_for_tiers
    from cuesta.frontend.compile_exported import compile
    from cuesta.frontend.compile_for import compile_for
    from cuesta.frontend.program_file import load
    from cuesta.options import list_mode_options, list_options

if "torch" in sys.modules:  # Triton's workers do without it, and start in a tenth of the time
    import cuesta.cache_artifacts  # torch.compiler.load_cache_artifacts must know our kind
    import cuesta.own_ops  # noqa: F401  torch.ops.cuesta our ops

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

#: Public name → where it lives. Loaded on first use, so that importing one part costs no more than it.
_LAZY = {
    "audit": ("cuesta.frontend.audit", "audit"),
    "backend": ("cuesta.frontend.backend", "compile_fx_graph"),
    "compile": ("cuesta.frontend.compile_exported", "compile"),
    "compile_for": ("cuesta.frontend.compile_for", "compile_for"),
    "list_mode_options": ("cuesta.options", "list_mode_options"),
    "list_options": ("cuesta.options", "list_options"),
    "load": ("cuesta.frontend.program_file", "load"),
    "register_with_accelerate": ("cuesta.frontend.accelerate", "register_with_accelerate"),
    "report": ("cuesta.compile_report", "report"),
    "wait_for_tiers": ("cuesta.frontend.background", "wait_for_tiers"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"cuesta has no {name!r}; it has {', '.join(sorted(_LAZY))}")
    module, attribute = _LAZY[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value
