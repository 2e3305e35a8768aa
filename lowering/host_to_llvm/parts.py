"""Splits a module in the LLVM dialect into parts, which LLVM compiles in parallel.

    @a__tiles  @b__tiles  @b__aligned     →   { @a__tiles }  { @b__tiles  @b__aligned }  { @cuesta_run }
    @cuesta_run  @cuesta_main                 { @cuesta_main, with weak stand-ins for what it runs }

Functions that LLVM could optimise across, such as by inlining, stay in one part. The host program, which LLVM does not
optimise, is a separate part, so that the wrappers that the JIT writes for its functions are not optimised either; that
took half of the time of the host program. Its helpers are one more part: most programs have the same ones, so LLVM
compiles them once in a process. The split depends on the module alone, so the machine code is the same on
machines with more cores and with fewer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.upstream_fields import FUNCTION_TYPE, LINKAGE, PASSTHROUGH, SYM_NAME
from cuesta.lowering.host_to_llvm.launch_step import PACKED
from cuesta.lowering.host_to_llvm.needed import HELPERS

#: One more part is made for each so many characters of text: 0.15 s of LLVM's work; a part costs 0.01 s to start.
_PART = 120_000

#: The most parts, beside the host program.
_MOST = 8

#: A symbol in an operation's text is @name or @"name"; the name of a vector function is in an attribute, as (name).
_NAMED = re.compile(r'[@(]"?([\w.$-]+)')


@dataclass(frozen=True)
class Part:
    """The text of a module, whether LLVM is to optimise it, and whether other programs have the same part."""

    text: str
    optimised: bool
    common: bool = False


@dataclass
class _Symbol:
    text: str
    named: frozenset[str]
    type: str
    weak: bool
    optimised: bool


def parts_of(module: ir.Module) -> list[Part]:
    """Splits `module`; each function and global that is not weak is defined in one part. `module` must declare nothing
    but the JIT's wrappers, and have weak definitions in place of other declarations."""
    symbols = _symbols(module)
    together = _groups(symbols)
    host = [group for group in together if not _is_optimised(symbols, group)]
    groups = [group for group in together if _is_optimised(symbols, group)]
    own = [name for group in host for name in group if name not in HELPERS]
    helpers = [name for group in host for name in group if name in HELPERS]
    if bool(groups) + bool(own) + bool(helpers) == 1:
        return [Part(module.operation.get_asm(enable_debug_info=False), bool(groups))]
    costs = [sum(len(symbols[name].text) for name in group) for group in groups]
    parts: list[list[str]] = [[] for _ in range(min(_MOST, len(groups), 1 + sum(costs) // _PART))]
    totals = [0] * len(parts)
    for number in sorted(range(len(groups)), key=lambda n: -costs[n]):
        least = totals.index(min(totals))
        parts[least] += groups[number]
        totals[least] += costs[number]
    made = [Part(_text(symbols, part), True) for part in parts if part]
    # In one order, so that programs with the same helpers have the same text.
    made += [Part(_text(symbols, sorted(helpers)), False, common=True)] if helpers else []
    return [*made, Part(_text(symbols, own), False)] if own else made


def _is_optimised(symbols: dict[str, _Symbol], group: list[str]) -> bool:
    return any(symbols[name].type and symbols[name].optimised for name in group)


def _symbols(module: ir.Module) -> dict[str, _Symbol]:
    found = {}
    for view in module.body.operations:
        op = view.operation
        text = op.get_asm(enable_debug_info=False, use_local_scope=True)
        name = SYM_NAME.of(op)
        found[name] = _Symbol(
            text,
            frozenset(_NAMED.findall(text)),
            str(FUNCTION_TYPE.of(op)) if op.name == "llvm.func" else "",
            "weak" in str(LINKAGE.of(op)) or name.startswith(PACKED),
            '"optnone"' not in str(PASSTHROUGH.find(op)),
        )
    return found


def _groups(symbols: dict[str, _Symbol]) -> list[list[str]]:
    """Groups of symbols that stay in one part. Weak symbols are in no group: each part defines those that it uses."""
    leader = {name: name for name in symbols}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = name = leader[leader[name]]
        return name

    host = next((name for name, symbol in symbols.items() if not symbol.optimised), "")
    for name, symbol in symbols.items():
        if not symbol.optimised:
            leader[find(name)] = find(host)
        for other in _strong(symbols, symbol):
            # LLVM inlines nothing into a function that it does not optimise.
            if symbol.optimised or not symbols[other].type:
                leader[find(other)] = find(name)
    groups: dict[str, list[str]] = {}
    for name, symbol in symbols.items():
        if not symbol.weak:
            groups.setdefault(find(name), []).append(name)
    return list(groups.values())


def _strong(symbols: dict[str, _Symbol], symbol: _Symbol) -> Iterator[str]:
    return (name for name in symbol.named if name in symbols and not symbols[name].weak)


def _text(symbols: dict[str, _Symbol], part: list[str]) -> str:
    """The text of a part, with weak stand-ins for the symbols of other parts that it uses."""
    needed = sorted({name for own in part for name in symbols[own].named if name in symbols} - set(part))
    lines = []
    for name in needed:
        if name.startswith(PACKED) and name.removeprefix(PACKED) not in part:
            lines.append(f'llvm.mlir.global weak @"{name}"(0 : i8) : i8')  # not a function, which would be compiled
        elif symbols[name].weak:
            lines.append(symbols[name].text)
        else:
            lines.append(_stand_in(name, symbols[name].type))
    return "\n".join([*lines, *(symbols[name].text for name in part)])


def _stand_in(name: str, function_type: str) -> str:
    result, inner = function_type.removeprefix("!llvm.func<").removesuffix(")>").split(" (", 1)
    parameters = ", ".join(
        f"%p{number}: {_spelled(kind)}" for number, kind in enumerate(filter(None, inner.split(", ")))
    )
    returned = "" if result == "void" else f" -> {_spelled(result)}"
    return f'llvm.func weak @"{name}"({parameters}){returned} {{\n  llvm.unreachable\n}}'


def _spelled(kind: str) -> str:
    return "!llvm.ptr" if kind == "ptr" else kind
