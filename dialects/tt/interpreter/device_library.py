"""Interprets tt.extern_elementwise: the functions of libdevice (`__nv_*`) and ocml (`__ocml_*`).

`__nv_tanhf` and `__ocml_tanh_f32` are both tanh. numpy has most functions, torch the special functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import torch

from cuesta._mlir import ir
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.interpreter.arithmetic import by_torch, fused_multiply_add
from cuesta.dialects.tt.interpreter.program import Action, action_maker
from cuesta.dialects.tt.interpreter.values import Array, InterpreterError, held, spelling


def _round_half_away(x: Array) -> Array:
    below = np.trunc(x)
    return np.where(np.abs(x - below) >= 0.5, below + np.copysign(1, x), below).astype(x.dtype)


#: Functions that numpy has under the same name.
_NUMPYS = """
    abs cbrt ceil copysign cos cosh exp exp2 expm1 floor fmax fmin fmod hypot log log10 log1p log2 rint sin
    sinh sqrt tan tanh trunc
"""
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in _NUMPYS.split()},
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "erf": by_torch(torch.erf),
    "erfc": by_torch(torch.erfc),
    "erfcx": by_torch(torch.special.erfcx),
    "erfinv": by_torch(torch.erfinv),
    "fabs": np.abs,
    "fma": fused_multiply_add,
    "lgamma": by_torch(torch.lgamma),
    "nearbyint": np.rint,
    "ncdfinv": by_torch(torch.special.ndtri),
    "normcdf": by_torch(torch.special.ndtr),
    "pow": np.power,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "round": _round_half_away,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)),
}


def find(symbol: str) -> Callable[..., Array]:
    """The function that `symbol` names. Raises InterpreterError for an unknown symbol."""
    name = _meaning(symbol)
    if name not in _FUNCTIONS:
        raise InterpreterError(f"the interpreter does not know {symbol}; it knows {', '.join(_FUNCTIONS)}")
    return _FUNCTIONS[name]


def _meaning(symbol: str) -> str:
    amd = re.fullmatch(r"__ocml_(\w+)_f(?:32|64)", symbol)
    if amd:
        return {"ncdf": "normcdf"}.get(amd[1], amd[1])
    name = symbol.removeprefix("__nv_") if symbol.startswith("__nv_") else ""
    return name if name in _FUNCTIONS else name.removesuffix("f")


@action_maker(ops.ExternElementwise)
def _extern_elementwise(op: ir.Operation) -> Action:
    compute, kind = find(ops.ExternElementwise.symbol.of(op)), spelling(op.result)
    return lambda run, x: (held(compute(*x), kind),)
