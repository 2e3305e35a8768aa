"""Import rules ATen → cuesta, one module for each family. Importing the package registers all rules."""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
