"""expm1 and log1p of f64, from exp and log, which stay for libm.

Upstream would compute exp(x) - 1 and log(1 + x), which lose all digits of a small x. Here the error
that rounding u = exp(x) (or 1 + x) makes is divided out again, as W. Kahan does:
expm1 x = (u - 1) x / log u, log1p x = log(u) x / (u - 1).
"""

from __future__ import annotations

import math as pymath

from cuesta._mlir import math
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value


def expm1(b: Builder, x: Value) -> Value:
    u = math.ExpOp(x).result
    less_one = b.sub(u, 1.0)
    y = b.div(b.mul(less_one, x), math.LogOp(u).result)
    y = b.select(b.equal(less_one, -1.0), less_one, y)  # log u may be -inf
    y = b.select(b.equal(u, pymath.inf), u, y)
    return b.select(b.equal(u, 1.0), x, y)


def log1p(b: Builder, x: Value) -> Value:
    u = b.add(x, 1.0)
    less_one = b.sub(u, 1.0)
    y = b.mul(math.LogOp(u).result, b.div(x, less_one))
    y = b.select(b.equal(u, pymath.inf), u, y)
    return b.select(b.equal(less_one, 0.0), x, y)
