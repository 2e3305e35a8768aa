"""ATen → cuesta: import rules, one module a family. Importing the package registers the rules of all its modules."""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
