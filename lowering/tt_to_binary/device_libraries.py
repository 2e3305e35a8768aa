"""Renames library functions, which texts name as libdevice does, to the names of the target's library.

"__nv_tanhf"   →   "__ocml_tanh_f32" (AMD),   "__imf_tanhf" (Intel)
"""

from __future__ import annotations

import re

from cuesta.targets import Target

_SYMBOL = re.compile(r'symbol = "__nv_(\w+)"')

#: Functions of f64 whose names end in f, as the names of f32 functions do.
_ENDING_IN_F = {"erf", "normcdf"}


def name_functions(text: str, target: Target) -> str:
    """`text` with the names of its library functions replaced by those of `target`'s library."""
    if target.kind == "hip":
        return _SYMBOL.sub(lambda match: f'symbol = "__ocml_{_ocml(match[1])}"', text)
    if target.kind == "xpu":
        return _SYMBOL.sub(r'symbol = "__imf_\1"', text)
    return text


def _ocml(name: str) -> str:
    if name.endswith("f") and name not in _ENDING_IN_F:
        return f"{name[:-1]}_f32"
    return f"{name}_f64"
