"""Defines the step that calls a typed function of torch's C shim (dialects/host/typed_entries.py). Its table is that of
the dispatcher's step, and the words become the function's arguments. Unlike the dispatcher, the function does not take
ownership of its arguments, so the step frees them.
"""

from __future__ import annotations

from cuesta.dialects.host.aten_abi import torch_exports
from cuesta.dialects.host.typed_entries import TypedEntry
from cuesta.lowering.host_to_llvm.steps import I64, PTR, STEP_END, TABLE, at, define

_TYPES = {"tensor": PTR, "bool": "i32", "float": "f64", "int": I64, "tensor?": PTR, "value?": PTR}


def free_helper(call: str) -> str:
    """Frees the box of an optional, which dispatch_step.py made, and the tensor in the box if there is one."""
    return define(
        "cuesta_free_box",
        f"%box: {PTR}, %holds_tensor: i1",
        "",
        f"""
  %absent = llvm.icmp "eq" %box, %null : {PTR}
  llvm.cond_br %absent, ^end, ^present
^present:
  llvm.cond_br %holds_tensor, ^tensor, ^free
^tensor:
  llvm.call @cuesta_delete(%box, %one) : ({PTR}, i64) -> ()
  llvm.br ^free
^free:
  {call}
  llvm.br ^end
^end:
  llvm.return""",
    )


#: Name → definition.
HELPERS: dict[str, str] = {
    "cuesta_free_box": free_helper(
        f"%freed = llvm.call @torch_delete_stable_ivalue(%box) : ({PTR}) -> i32"
        if torch_exports("torch_new_stable_ivalue")
        else f"llvm.call @_ZdlPv(%box) : ({PTR}) -> ()"
    )
}


def typed_helper(name: str, entry: TypedEntry) -> str:
    """The step, and the declaration of the function that it calls."""
    count, made = len(entry.arguments), len(entry.results)
    kinds = [_TYPES[kind] for kind in entry.arguments]
    loads = [at(f"%a{i}", "%stack", i, kind) for i, kind in enumerate(kinds)]
    places = [at(f"%r{i}", "%made", i) for i in range(made)]
    arguments = ", ".join([*(f"%a{i}" for i in range(count)), *(f"%r{i}" for i in range(made))])
    function = f"({', '.join([*kinds, *[PTR] * made])}) -> i32"
    lines = "\n  ".join([*loads, *places, f"%called = llvm.call @{entry.symbol}({arguments}) : {function}"])
    frees = "\n  ".join(text for i, kind in enumerate(entry.arguments) for text in _free(i, kind))
    step = define(
        f'"{name}"',
        TABLE,
        "i32",
        f"""
  %true = llvm.mlir.constant(true) : i1
  %false = llvm.mlir.constant(false) : i1
  %positive = llvm.mlir.constant(1 : i32) : i32
  %negative = llvm.mlir.constant(-1 : i32) : i32
  %count = llvm.mlir.constant({count} : i64) : i64
  %results = llvm.mlir.constant({made} : i64) : i64
  %stack = llvm.alloca %count x i64 : (i64) -> {PTR}
  %made = llvm.alloca %results x i64 : (i64) -> {PTR}
  %filled = llvm.call @cuesta_words(%slots, %frame, %table, %stack) : ({PTR}, {PTR}, {PTR}, {PTR}) -> i32
  %ready = llvm.icmp "eq" %filled, %good : i32
  llvm.cond_br %ready, ^call, ^end(%filled, %positive : i32, i32)
^call:
  {lines}
  {frees}
  %returned = llvm.icmp "eq" %called, %good : i32
  llvm.cond_br %returned, ^take, ^end(%called, %positive : i32, i32)
^take:
  %adopted = llvm.call @cuesta_take(%frame, %table, %made) : ({PTR}, {PTR}, {PTR}) -> i32
  llvm.br ^end(%adopted, %negative : i32, i32)
^end(%code: i32, %sign: i32):{STEP_END}""",
    )
    return f"{step}\nllvm.func @{entry.symbol}{function}"


def _free(index: int, kind: str) -> list[str]:
    if kind == "tensor":
        address = at(f"%f{index}", "%stack", index)
        return [address, f"llvm.call @cuesta_delete(%f{index}, %one) : ({PTR}, i64) -> ()"]
    if kind.endswith("?"):
        holds = "%true" if kind == "tensor?" else "%false"
        return [f"llvm.call @cuesta_free_box(%a{index}, {holds}) : ({PTR}, i1) -> ()"]
    return []
