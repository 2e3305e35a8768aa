"""Objects that LLVM wrote, loaded and called; and objects that were made wrong, refused by name."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch

from cuesta._mlir import ExecutionEngine, ir
from cuesta.errors import ArtefactError
from cuesta.runtime.elf import perf_map
from cuesta.runtime.elf.loader import load_object, process_resolver

TORCH_CPU = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")

MODULE = """
llvm.mlir.global internal constant @table(dense<[1.5, 2.5, 3.5, 4.5]> : tensor<4xf32>) : !llvm.array<4 x f32>
llvm.mlir.global external @zeros(dense<0> : tensor<8xi64>) {addr_space = 0 : i32} : !llvm.array<8 x i64>
llvm.mlir.global external @count(40 : i64) : i64
llvm.mlir.global common @shared(0 : i64) : i64
llvm.mlir.global external constant @exp_pointer() : !llvm.ptr {
  %f = llvm.mlir.addressof @expf : !llvm.ptr
  llvm.return %f : !llvm.ptr
}
llvm.mlir.global external @zeros_pointer() : !llvm.ptr {
  %p = llvm.mlir.addressof @zeros : !llvm.ptr
  llvm.return %p : !llvm.ptr
}
llvm.mlir.global external @environ() : !llvm.ptr
llvm.func @expf(f32) -> f32
llvm.func @GOMP_parallel(!llvm.ptr, !llvm.ptr, i32, i32)

llvm.func @lookup(%i: i64) -> f32 {
  %table = llvm.mlir.addressof @table : !llvm.ptr
  %p = llvm.getelementptr %table[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %p : !llvm.ptr -> f32
  llvm.return %v : f32
}
llvm.func @exp(%x: f32) -> f32 {
  %y = llvm.call @expf(%x) : (f32) -> f32
  llvm.return %y : f32
}
llvm.func @exp_indirect(%x: f32) -> f32 {
  %pp = llvm.mlir.addressof @exp_pointer : !llvm.ptr
  %p = llvm.load volatile %pp : !llvm.ptr -> !llvm.ptr
  %y = llvm.call %p(%x) : !llvm.ptr, (f32) -> f32
  llvm.return %y : f32
}
llvm.func @bump() -> i64 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %p = llvm.mlir.addressof @count : !llvm.ptr
  %old = llvm.load %p : !llvm.ptr -> i64
  %new = llvm.add %old, %one : i64
  llvm.store %new, %p : i64, !llvm.ptr
  %s = llvm.mlir.addressof @shared : !llvm.ptr
  llvm.store %new, %s : i64, !llvm.ptr
  %zpp = llvm.mlir.addressof @zeros_pointer : !llvm.ptr
  %zp = llvm.load volatile %zpp : !llvm.ptr -> !llvm.ptr
  llvm.store %new, %zp : i64, !llvm.ptr
  llvm.return %new : i64
}
llvm.func @environment() -> !llvm.ptr {
  %p = llvm.mlir.addressof @environ : !llvm.ptr
  %v = llvm.load %p : !llvm.ptr -> !llvm.ptr
  llvm.return %v : !llvm.ptr
}
llvm.func @body(%counter: !llvm.ptr) {
  %one = llvm.mlir.constant(1 : i64) : i64
  %old = llvm.atomicrmw add %counter, %one seq_cst : !llvm.ptr, i64
  llvm.return
}
llvm.func @parallel(%counter: !llvm.ptr, %threads: i32) {
  %f = llvm.mlir.addressof @body : !llvm.ptr
  %flags = llvm.mlir.constant(0 : i32) : i32
  llvm.call @GOMP_parallel(%f, %counter, %threads, %flags) : (!llvm.ptr, !llvm.ptr, i32, i32) -> ()
  llvm.return
}
"""


def compile_object(path: Path, opt_level: int, pic: bool) -> bytes:
    with ir.Context():
        module = ir.Module.parse(MODULE)
        engine = ExecutionEngine(module, opt_level=opt_level, shared_libs=[TORCH_CPU], enable_pic=pic)
        engine.dump_to_object_file(str(path))
    return path.read_bytes()


@pytest.fixture(scope="module", params=[(0, False), (2, False), (2, True)], ids=["O0", "O2", "O2-position-independent"])
def from_llvm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    opt_level, pic = request.param
    return compile_object(tmp_path_factory.mktemp("elf") / "module.o", opt_level, pic)


def function(address: int, result: type | None, *arguments: type) -> Callable[..., object]:
    return ctypes.CFUNCTYPE(result, *arguments)(address)


def pages() -> dict[tuple[int, int], str]:
    """The process's mappings: (first, last + 1) → permissions."""
    lines = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    return {(int(span.split("-")[0], 16), int(span.split("-")[1], 16)): mode for span, mode in lines}


def permissions(address: int) -> str:
    return next((mode for (first, end), mode in pages().items() if first <= address < end), "unmapped")


def test_calls_constants_and_data(from_llvm: bytes) -> None:
    loaded = load_object(from_llvm, process_resolver())
    lookup = function(loaded.symbols["lookup"], ctypes.c_float, ctypes.c_int64)
    assert [lookup(i) for i in range(4)] == [1.5, 2.5, 3.5, 4.5]
    for name in ("exp", "exp_indirect"):
        exp = function(loaded.symbols[name], ctypes.c_float, ctypes.c_float)
        assert exp(1.0) == pytest.approx(math.e, rel=1e-6)

    zeros = (ctypes.c_int64 * 8).from_address(loaded.symbols["zeros"])
    assert list(zeros) == [0] * 8
    bump = function(loaded.symbols["bump"], ctypes.c_int64)
    assert (bump(), bump()) == (41, 42)
    assert zeros[0] == ctypes.c_int64.from_address(loaded.symbols["shared"]).value == 42
    environ = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "environ").value
    assert function(loaded.symbols["environment"], ctypes.c_void_p)() == environ


def test_runs_on_torchs_openmp(from_llvm: bytes) -> None:
    loaded = load_object(from_llvm, process_resolver())
    counter = ctypes.c_int64(0)
    function(loaded.symbols["parallel"], None, ctypes.c_void_p, ctypes.c_int32)(ctypes.addressof(counter), 2)
    assert counter.value == 2


def test_two_loads_share_no_data(from_llvm: bytes) -> None:
    first, second = (load_object(from_llvm, process_resolver()) for _ in range(2))
    function(first.symbols["bump"], ctypes.c_int64)()
    assert ctypes.c_int64.from_address(second.symbols["count"]).value == 40


def test_no_page_is_writable_and_executable(from_llvm: bytes) -> None:
    loaded = load_object(from_llvm, process_resolver())
    assert permissions(loaded.symbols["bump"]) == "r-xp"
    assert permissions(loaded.symbols["exp_pointer"]) == "r--p"
    assert {permissions(loaded.symbols[name]) for name in ("count", "zeros", "shared")} == {"rw-p"}


def test_close_and_collection_unmap(from_llvm: bytes) -> None:
    loaded = load_object(from_llvm, process_resolver())
    assert loaded.nbytes > 0
    loaded.close()
    loaded.close()
    assert (loaded.symbols, loaded.nbytes) == ({}, 0)

    loaded = load_object(from_llvm, process_resolver())
    address = loaded.symbols["bump"]
    del loaded  # then the place may hold something else already, but not code
    assert permissions(address) != "r-xp"


def test_unresolved_symbols_are_all_named(from_llvm: bytes) -> None:
    resolve = process_resolver()

    def without_two(name: str) -> int:
        if name in ("expf", "GOMP_parallel"):
            raise LookupError(name)
        return resolve(name)

    with pytest.raises(ArtefactError, match=r"nothing in this process defines (?=.*expf)(?=.*GOMP_parallel)"):
        load_object(from_llvm, without_two)


def test_every_truncation_is_refused(from_llvm: bytes) -> None:
    resolve = process_resolver()
    for length in range(0, len(from_llvm), 97):
        with pytest.raises(ArtefactError):
            load_object(from_llvm[:length], resolve)


def test_damage_never_crashes_the_loader(from_llvm: bytes) -> None:
    resolve = process_resolver()
    for position in range(len(from_llvm)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(from_llvm)
            damaged[position] ^= flip
            with contextlib.suppress(ArtefactError):  # code that differs is the digest's to find
                load_object(bytes(damaged), resolve).close()


def test_resolver_prefers_the_libraries_it_is_given() -> None:
    libm = ctypes.CDLL("libm.so.6")
    assert process_resolver(libm)("expf") == ctypes.cast(libm.expf, ctypes.c_void_p).value
    assert process_resolver()("aoti_torch_cpu_mm_out")
    with pytest.raises(LookupError, match="cuesta_has_no_such_symbol"):
        process_resolver()("cuesta_has_no_such_symbol")


def test_loads_without_the_compiler(
    from_llvm: bytes, tmp_path: Path, forked: Callable[..., CompletedProcess[str]]
) -> None:
    (tmp_path / "module.o").write_bytes(from_llvm)
    script = """if True:
        import ctypes, pathlib, sys
        import cuesta.cache, cuesta.runtime.arena, cuesta.runtime.artefact
        from cuesta.runtime.elf.loader import load_object, process_resolver
        loaded = load_object(pathlib.Path(sys.argv[1]).read_bytes(), process_resolver())
        print(ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.symbols["bump"])())
        print([name for name in sys.modules if "mlir" in name])
    """
    result = forked(script, tmp_path / "module.o")
    assert result.stdout.split("\n") == ["41", "[]", ""], result.stderr


# What LLVM's JIT code model never writes, written by hand: section 1 is code, 2 data, 3 bss.

PLT32, PC32, GOTPCREL, U32, S32, GOTPCRELX, REX_GOTPCRELX = 4, 2, 9, 10, 11, 41, 42
GLOBAL_FUNCTION, WEAK, TLS_VARIABLE = 0x12, 0x20, 0x16


def write_object(
    code: bytes,
    symbols: list[tuple[str, int, int, int]],
    relocations: list[tuple[int, int, int, int]] = [],  # noqa: B006 - never written
    *,
    code_flags: int = 0x6,
    code_alignment: int = 16,
    data_kind: int = 1,
    table_kind: int = 4,
) -> bytes:
    """An object of `code`, symbols (name, info, section, value) and relocations (offset, symbol, type, addend)."""
    names = b"\0.text\0.data\0.bss\0"
    symbol_rows = [bytes(24)]
    for name, info, section, value in symbols:
        symbol_rows.append(struct.pack("<IBBHQQ", len(names), info, 0, section, value, 8))
        names += name.encode() + b"\0"
    blobs = {
        "text": code,
        "data": struct.pack("<q", 7),
        "symbols": b"".join(symbol_rows),
        "rela": b"".join(struct.pack("<QQq", at, symbol << 32 | kind, add) for at, symbol, kind, add in relocations),
        "names": names,
    }
    body, offsets = bytes(64), {}
    for key, blob in blobs.items():
        offsets[key] = len(body)
        body += blob

    def row(name: str, kind: int, flags: int, blob: str, size: int, *rest: int) -> bytes:
        where = names.index(name.encode() + b"\0")
        return struct.pack("<IIQQQQIIQQ", where, kind, flags, 0, offsets.get(blob, 0), size, *rest)

    table = [
        bytes(64),
        row(".text", 1, code_flags, "text", len(code), 0, 0, code_alignment, 0),
        row(".data", data_kind, 0x3, "data", 8, 0, 0, 8, 0),
        row(".bss", 8, 0x3, "", 8, 0, 0, 8, 0),
        row("", 2, 0, "symbols", len(blobs["symbols"]), 6, 0, 8, 24),
        row("", table_kind, 0, "rela", len(blobs["rela"]), 4, 1, 8, 24),
        row("", 3, 0, "names", len(names), 0, 0, 1, 0),
    ]
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, len(body), 0, 64, 0, 0, 64, len(table), 6)
    return identity + header + body[64:] + b"".join(table)


def refuse(name: str) -> int:
    raise LookupError(name)


JUMP = b"\xe9\0\0\0\0"  # jmp rel32
RETURN_GOT_WORD = b"\x48\x8b\x05\0\0\0\0\xc3"  # mov rax, [rip + rel32]; ret
RETURN_INT_AT = b"\x8b\x05\0\0\0\0\xc3"  # mov eax, [rip + rel32]; ret
START = ("start", GLOBAL_FUNCTION, 1, 0)


@pytest.fixture(scope="module")
def far_function() -> int:
    """The address of `return 42`, placed far from where the system maps anything else."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    writable, private_anonymous_at_that_place = 3, 0x100022
    address = 0x2000_0000_0000
    assert libc.mmap(address, mmap.PAGESIZE, writable, private_anonymous_at_that_place, -1, 0) == address
    ctypes.memmove(address, b"\xb8\x2a\0\0\0\xc3", 6)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(address, mmap.PAGESIZE, 5) == 0
    return address


def test_far_calls_go_through_a_stub(far_function: int) -> None:
    data = write_object(JUMP * 2, [START, ("far", 0x10, 0, 0)], [(1, 2, PLT32, -4), (6, 2, PLT32, -4)])
    loaded = load_object(data, lambda name: far_function)
    assert function(loaded.symbols["start"], ctypes.c_int)() == 42
    assert function(loaded.symbols["start"] + len(JUMP), ctypes.c_int)() == 42


def test_far_data_is_refused_since_a_stub_would_be_read_as_data(far_function: int) -> None:
    data = write_object(RETURN_INT_AT, [START, ("far", 0x10, 0, 0)], [(2, 2, PC32, -4)])
    with pytest.raises(ArtefactError, match=r"R_X86_64_PC32 at \.text\+0x2 does not reach far"):
        load_object(data, lambda name: far_function)


def test_near_data_is_reached_from_code() -> None:
    data = write_object(RETURN_INT_AT, [START, ("seven", 0x11, 2, 0)], [(2, 2, PC32, -4)])
    loaded = load_object(data, refuse)
    assert function(loaded.symbols["start"], ctypes.c_int)() == 7


@pytest.mark.parametrize("kind", [GOTPCREL, GOTPCRELX, REX_GOTPCRELX])
def test_addresses_come_from_the_global_offset_table(kind: int) -> None:
    data = write_object(RETURN_GOT_WORD, [START, ("far", 0x10, 0, 0)], [(3, 2, kind, -4)])
    loaded = load_object(data, lambda name: 0x1234_5678_9ABC)
    assert function(loaded.symbols["start"], ctypes.c_int64)() == 0x1234_5678_9ABC


@pytest.mark.parametrize(("kind", "value"), [(U32, 0xFFFF_FFF0), (S32, 0xFFFF_FFFF_FFFF_FFF0), (S32, 5)])
def test_32_bit_addresses_where_they_fit(kind: int, value: int) -> None:
    signed = value if value < 1 << 63 else value - (1 << 64)
    data = write_object(bytes(8), [START, ("low", 0x10, 0xFFF1, 0)], [(0, 2, kind, signed)])
    loaded = load_object(data, refuse)
    assert ctypes.c_uint32.from_address(loaded.symbols["start"]).value == value & 0xFFFF_FFFF
    data = write_object(bytes(8), [START], [(0, 1, kind, 0)])
    with pytest.raises(ArtefactError, match="does not reach start"):
        load_object(data, refuse)


def test_a_weak_symbol_that_nobody_defines_is_null() -> None:
    data = write_object(RETURN_GOT_WORD, [START, ("perhaps", WEAK, 0, 0)], [(3, 2, GOTPCREL, -4)])
    loaded = load_object(data, refuse)
    assert function(loaded.symbols["start"], ctypes.c_int64)() == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the ELF header ends at byte 64 of 0"),
        (b"MZ" + bytes(100), "not an ELF object"),
        (b"\x7fELF\x01" + bytes(100), "not a relocatable 64-bit x86-64 object"),
        (write_object(JUMP, [START])[:18] + b"\xb7" + write_object(JUMP, [START])[19:], "62"),
        (write_object(JUMP, [START], [(1, 1, 99, 0)]), r"relocation type 99 at \.text\+0x1 is unknown"),
        (write_object(JUMP, [START], [(2, 1, PC32, 0)]), r"R_X86_64_PC32 at \.text\+0x2, symbol 1"),
        (write_object(JUMP, [START], [(1, 5, PC32, 0)]), "symbol 5"),
        (write_object(JUMP, [START, ("mine", TLS_VARIABLE, 3, 0)]), "mine is thread-local"),
        (write_object(JUMP, [START, ("pick", 0x1A, 1, 0)]), "pick is an indirect function"),
        (write_object(JUMP, [START, ("", 0x10, 0, 0)]), "symbol 2, which has no name"),
        (write_object(JUMP, [START, ("lost", 0x10, 0x77, 0)]), "lost is in section 0x77"),
        (write_object(JUMP, [START], code_flags=0x7), r"\.text is both writable and executable"),
        (write_object(JUMP, [START], code_flags=0x403), r"\.text is thread-local"),
        (write_object(JUMP, [START], code_alignment=48), r"\.text asks for alignment 48"),
        (write_object(JUMP, [START], code_alignment=1 << 20), r"\.text asks for alignment 1048576"),
        (write_object(JUMP, [START], data_kind=14), r"\.data of type 0xe is not handled"),  # INIT_ARRAY
        (write_object(JUMP, [START], [(1, 1, PC32, 0)], table_kind=9), "carry no addends"),
    ],
)
def test_refuses_and_names(data: bytes, message: str) -> None:
    with pytest.raises(ArtefactError, match=message):
        load_object(data, refuse)


def test_perf_gets_the_names_of_functions(from_llvm: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(perf_map, "path_of", lambda process: tmp_path / f"perf-{process}.map")
    load_object(from_llvm, process_resolver())
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("CUESTA_PERF_MAP", "1")
    loaded = load_object(from_llvm, process_resolver())
    (file,) = tmp_path.iterdir()
    assert file.name == f"perf-{os.getpid()}.map"
    functions = {name: (int(address, 16), int(size, 16)) for address, size, name in map(str.split, file.open())}
    assert functions["bump"][0] == loaded.symbols["bump"]
    assert 0 < functions["bump"][1] < mmap.PAGESIZE
    assert "count" not in functions  # data
    assert "expf" not in functions  # not the object's own
