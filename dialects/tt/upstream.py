"""Lists the upstream ops that a kernel may hold: those that Triton 3.6 lowers, for NVIDIA and for AMD.

Triton's parser accepts every op of arith and math, but its lowering fails on the others with a message that
names no line of ours, so the verifier refuses these. Found by compiling each op for cuda:90 and hip:gfx942.
"""

from __future__ import annotations

_ARITH = """
    constant addi subi muli divsi divui remsi remui andi ori xori shli shrsi shrui minsi minui maxsi maxui
    addf subf mulf divf remf minimumf maximumf minnumf maxnumf cmpi cmpf select
    extf truncf extsi extui trunci sitofp uitofp fptosi fptoui index_cast
"""
_MATH = "absf absi ceil cos erf exp exp2 floor fma log log2 rsqrt sin sqrt"
_SCF = "for if while condition yield"

#: Full names, such as arith.addf.
LOWERED = frozenset(
    f"{dialect}.{op}" for dialect, names in (("arith", _ARITH), ("math", _MATH), ("scf", _SCF)) for op in names.split()
)

_INSTEAD = {
    "arith.negf": "subtract from -0.0",
    "arith.bitcast": "use tt.bitcast",
    "arith.floordivsi": "use arith.divsi and arith.remsi",
    "arith.ceildivsi": "use arith.divsi and arith.remsi",
    "math.isnan": "compare the value with itself",
    "math.isfinite": "compare the absolute value with infinity",
}


def problem(name: str) -> str | None:
    """Why Triton does not lower the upstream op `name`, and what to use instead; or None."""
    if name in LOWERED or name.partition(".")[0] == "tt":
        return None
    return f"Triton does not lower {name}: {_INSTEAD.get(name, 'decompose it, or call tt.extern_elementwise')}"
