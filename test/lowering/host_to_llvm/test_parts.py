"""Modules in parts: what stays together, what stands in for the rest; the parts' machine code is one program."""

from __future__ import annotations

import ctypes
import os

import pytest

from cuesta._mlir import ir
from cuesta.dialects import make_context
from cuesta.errors import ArtefactError, CompileError
from cuesta.lowering.host_to_llvm import object_code, parts
from cuesta.lowering.host_to_llvm.engine import make_object
from cuesta.lowering.host_to_llvm.needed import needed
from cuesta.lowering.host_to_llvm.object_code import compile_to_object
from cuesta.runtime.archive import members, pack
from cuesta.runtime.elf.loader import load_object, process_resolver

_ADDED = {"a": 1, "b": 20, "c": 300}
_KERNEL = """
llvm.mlir.global constant @{name}_adds({adds} : i64) : i64
llvm.func @{name}__tiles(%x: i64) -> i64 attributes {{passthrough = ["noinline"]}} {{
  %p = llvm.mlir.addressof @{name}_adds : !llvm.ptr
  %c = llvm.load %p : !llvm.ptr -> i64
  %y = llvm.add %x, %c : i64
  %z = llvm.call @labs(%y) : (i64) -> i64
  llvm.return %z : i64
}}
llvm.func @{name}(%x: i64) -> i64 {{
  %y = llvm.call @{name}__tiles(%x) : (i64) -> i64
  llvm.return %y : i64
}}
"""
_HOST = """
llvm.func @labs(i64) -> i64
llvm.func @step(%x: i64) -> i64 attributes {passthrough = ["noinline", "optnone"]} {
  %a = llvm.call @a(%x) : (i64) -> i64
  %b = llvm.call @b(%a) : (i64) -> i64
  llvm.return %b : i64
}
llvm.func @main(%x: i64) -> i64 attributes {passthrough = ["noinline", "optnone"]} {
  %y = llvm.call @step(%x) : (i64) -> i64
  %z = llvm.call @c(%y) : (i64) -> i64
  llvm.return %z : i64
}
"""
_MODULE = "".join(_KERNEL.format(name=name, adds=adds) for name, adds in _ADDED.items()) + _HOST


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The module's machine code, each group a part of its own."""
    monkeypatch.setattr(parts, "_PART", 1)
    with make_context():
        return compile_to_object(ir.Module.parse(_MODULE))


def test_the_parts_are_one_program(objects: bytes) -> None:
    loaded = load_object(objects, process_resolver())
    assert len(members(objects)) == 4
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.symbols["main"])(5) == 326
    assert loaded.nbytes >= 4 * 4096
    loaded.close()
    assert loaded.nbytes == 0


def test_what_calls_one_another_stays_together(objects: bytes) -> None:
    own = [load_object(member, lambda name: 1 << 40).symbols for member in members(objects)]
    for name in "abc":
        (part,) = (symbols for symbols in own if symbols.get(f"{name}__tiles", 1 << 40) != 1 << 40)
        assert part[name] != 1 << 40
        assert part[f"{name}_adds"] != 1 << 40


def test_the_parts_do_not_depend_on_the_cores(objects: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    with make_context():
        assert compile_to_object(ir.Module.parse(_MODULE)) == objects


def test_a_small_module_is_its_kernels_and_its_host_program() -> None:
    with make_context():
        kernels, host = members(compile_to_object(ir.Module.parse(_MODULE)))
        only_host = ir.Module.parse(_HOST.replace("@a(", "@labs(").replace("@b(", "@labs(").replace("@c(", "@labs("))
        assert compile_to_object(only_host).startswith(b"\x7fELF")
    assert {"a__tiles", "b__tiles", "c__tiles"} <= set(load_object(kernels, process_resolver()).symbols)
    assert {"main", "step"} <= set(load_object(host, lambda name: 1 << 40).symbols)


def test_helpers_are_compiled_once_for_all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def make(text: str, opt_level: int) -> bytes:
        compiled.append(text)
        return make_object(text, opt_level)

    monkeypatch.setattr(object_code, "make_object", make)
    object_code._make_common.cache_clear()
    helpers = ("cuesta_delete", "cuesta_run")
    programs = []
    for order, host in ((helpers, _HOST), (helpers[::-1], _HOST.replace("@main", "@other"))):
        with make_context():
            own = "".join(_KERNEL.format(name=name, adds=adds) for name, adds in _ADDED.items()) + host
            programs.append(compile_to_object(ir.Module.parse("\n".join([own, *needed([_called(n) for n in order])]))))
    of_helpers = [text for text in compiled if "llvm.func @cuesta_run(" in text]
    assert len(of_helpers) == 1
    assert "llvm.func @cuesta_delete(" in of_helpers[0]
    assert len(compiled) == 5  # and each program's kernels and its own host functions
    assert len(set(members(programs[0])) & set(members(programs[1]))) == 2  # the helpers', and here the kernels'


def _called(name: str) -> str:
    return f"llvm.call @{name}"


def test_llvm_optimises_kernels_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: dict[bool, int] = {}

    def make(text: str, opt_level: int) -> bytes:
        levels["@main" in text] = opt_level
        return make_object(text, opt_level)

    monkeypatch.setattr(object_code, "make_object", make)
    with make_context():
        compile_to_object(ir.Module.parse(_MODULE), 3)
    assert levels == {False: 3, True: 0}


def test_what_two_objects_define_is_not_for_others(objects: bytes) -> None:
    kernels = [part for part in members(objects) if "main" not in load_object(part, lambda name: 1 << 40).symbols]
    twice = pack([*members(objects), kernels[0]])
    with pytest.raises(ArtefactError, match="nothing in this process defines [abc]"):
        load_object(twice, process_resolver())


def test_text_that_mlir_refuses() -> None:
    with pytest.raises(CompileError, match="MLIR does not parse"):
        make_object("llvm.func @f(", 2)
