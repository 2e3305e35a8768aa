"""Collects the table of pointwise ops: the `ROWS` of every module in this package, one module for each family.

A module without `ROWS` holds code that rows share.
"""

from __future__ import annotations

import importlib
import pkgutil

from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise

__all__ = ["ROWS", "Pointwise"]

_MODULES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]

ROWS: tuple[Pointwise, ...] = tuple(row for module in _MODULES for row in getattr(module, "ROWS", ()))
