"""Loads relocatable x86-64 ELF objects, as LLVM writes them, and links them in memory: no linker, no compiler, no file.

    loaded = load_object(objects, process_resolver())
    entry = loaded.symbols["graph_4f1c"]    # an address; valid as long as `loaded` lives

An object's mapping has three regions of whole pages. While it is written, none of its pages is executable; afterwards
no executable page is writable:

    | code, stubs for far calls | .rodata, .data.rel.ro, GOT | .data, .bss, COMMON |
      read and run                read                         read and write

`.eh_frame` and debug sections are not loaded: no C++ exception crosses compiled code, because torch's C shim returns
error codes. Relocation formulas are those of the System V ABI, AMD64 supplement, "Relocation Types"; LLVM's large
position-independent code model emits the 64-bit GOT forms (`ExecutionEngine(enable_pic=True)`).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from cuesta.errors import ArtefactError
from cuesta.options import Environment
from cuesta.runtime.archive import members
from cuesta.runtime.elf import perf_map
from cuesta.runtime.elf import tables as elf
from cuesta.torch_library import torch_library

Resolve = Callable[[str], int]
"""The address of an external symbol by its name; raises LookupError where there is none."""

_CODE, _CONSTANT, _DATA = range(3)  # the regions, in their order in memory
_STUB = struct.Struct("<6sQ2x")  # jmp *0(%rip), followed by the target's address
_WORD = struct.Struct("<Q")


@dataclass
class LoadedObject:
    """Linked code and data in memory. They stay mapped until `close`, or until this Python object is collected."""

    symbols: dict[str, int]
    """The address of each global symbol that the object defines."""
    _memory: list[mmap.mmap] = field(repr=False)  # a mapping for each object

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the object takes; 0 once closed."""
        return sum(0 if memory.closed else len(memory) for memory in self._memory)

    def close(self) -> None:
        """Unmaps the object. Its addresses must no longer be used, and no thread may be running its code."""
        self.symbols.clear()
        for memory in self._memory:
            memory.close()


def load_object(data: bytes, resolve: Resolve) -> LoadedObject:
    """Loads an object file, or an archive of object files that may call each other, and links it. `resolve` gives the
    addresses of external symbols.

    Raises ArtefactError for bytes that are not a whole x86-64 object, for a symbol that does not resolve, and for
    unsupported features: thread-local storage, global constructors, unknown relocations.
    """
    images: list[_Image] = []
    try:
        images += map(_Image, map(elf.ElfTables, members(data)))
        defined = [image.definitions() for image in images]
        times = Counter(name for names in defined for name in names)
        # A name that several objects define (the JIT's wrappers of stand-ins) stays local to each of them. Only a
        # unique name can be linked from another object.
        symbols = {name: address for names in defined for name, address in names.items() if times[name] == 1}
        for image in images:
            image.link(lambda name: symbols[name] if name in times else resolve(name))
    except BaseException:
        for image in images:
            image.memory.close()
        raise
    if Environment.read().perf_map:
        perf_map.add_to_map(function for image in images for function in image.functions())
    exported = {name: address for image in images for name, address in image.exports().items() if times[name] < 2}
    return LoadedObject(exported, [image.memory for image in images])


def process_resolver(*libraries: ctypes.CDLL) -> Resolve:
    """A `resolve` for load_object: searches `libraries`, then the process, then libtorch_cpu.so with its dependencies.

    These dependencies include libm and the one OpenMP runtime that torch uses, whatever file name the wheel gave it.
    """
    torch_cpu = torch_library()
    scopes = (*libraries, _PROCESS, torch_cpu)

    def resolve(name: str) -> int:
        encoded = name.encode()
        for library in scopes:
            address: int | None = _PROCESS.dlsym(library._handle, encoded)
            if address:
                return address
        raise LookupError(name)

    return resolve


_PROCESS = ctypes.CDLL(None, use_errno=True)
_PROCESS.dlsym.restype = ctypes.c_void_p
_PROCESS.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_PROCESS.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _protect(address: int, nbytes: int, protection: int) -> None:
    if nbytes and _PROCESS.mprotect(address, nbytes, protection) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise ArtefactError(f"the system refuses to protect the pages of compiled code (mprotect: {reason})")


class _Layout:
    """The offsets in the mapping of each loaded section and COMMON symbol, and of the ends of the regions."""

    def __init__(self, tables: elf.ElfTables) -> None:
        self.sections: dict[int, int] = {}
        self.commons: dict[int, int] = {}
        self.size = 0
        regions: dict[int, list[int]] = {_CODE: [], _CONSTANT: [], _DATA: []}
        for index, section in enumerate(tables.sections):
            if section.flags & elf.ALLOC and (region := _region(section, tables.section_name(index))) is not None:
                regions[region].append(index)

        # Stubs and GOT have room for every symbol that could need an entry: an untouched page costs nothing.
        self._take_sections(tables, regions[_CODE])
        undefined = sum(symbol.section == elf.UNDEFINED for symbol in tables.symbols)
        self.stubs = self._take(_STUB.size * undefined, _STUB.size, "the stubs")
        self.code_end = self.size = _round_up(self.size, mmap.PAGESIZE)
        self._take_sections(tables, regions[_CONSTANT])
        self.got = self._take(_WORD.size * len(tables.symbols), _WORD.size, "the global offset table")
        self.constants_end = self.size = _round_up(self.size, mmap.PAGESIZE)
        self._take_sections(tables, regions[_DATA])
        for index, symbol in enumerate(tables.symbols):
            if symbol.section == elf.COMMON:
                self.commons[index] = self._take(symbol.size, symbol.value, tables.symbol_name(index))

    def _take_sections(self, tables: elf.ElfTables, indices: list[int]) -> None:
        for index in indices:
            section = tables.sections[index]
            self.sections[index] = self._take(section.size, section.alignment, tables.section_name(index))

    def _take(self, nbytes: int, alignment: int, what: str) -> int:
        if alignment & (alignment - 1) or alignment > mmap.PAGESIZE:
            raise ArtefactError(f"{what} asks for alignment {alignment}; a power of two up to {mmap.PAGESIZE} is valid")
        offset = _round_up(self.size, max(alignment, 1))
        self.size = offset + nbytes
        return offset


def _round_up(value: int, alignment: int) -> int:
    return (value + alignment - 1) & -alignment


def _region(section: elf.Section, name: str) -> int | None:
    """The region of an allocated section; None for a section that is not loaded."""
    if section.kind in (elf.UNWIND, elf.NOTE) or name == ".eh_frame":
        return None
    if section.flags & elf.TLS:
        raise ArtefactError(f"section {name} is thread-local; thread-local storage is not handled")
    if section.kind not in (elf.PROGBITS, elf.NOBITS) or section.flags & elf.COMPRESSED:
        raise ArtefactError(f"section {name} of type {section.kind:#x} is not handled; code and plain data are")
    if not section.flags & elf.RUN:
        constant = not section.flags & elf.WRITE or name.startswith(".data.rel.ro")
        return _CONSTANT if constant else _DATA
    if section.flags & elf.WRITE:
        raise ArtefactError(f"section {name} is both writable and executable; only one of them is valid")
    return _CODE


class _Image:
    """An object in its mapping. The whole mapping is writable until the object is linked."""

    def __init__(self, tables: elf.ElfTables) -> None:
        self._tables = tables
        self._layout = layout = _Layout(tables)
        try:
            self.memory = mmap.mmap(-1, max(layout.size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError) as error:
            raise ArtefactError(f"no memory for an object of {layout.size} bytes: {error}") from error
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.got = self.base + layout.got
        self._stubs: dict[int, int] = {}
        self._got_entries: dict[int, int] = {}
        self._addresses: list[int | None] = []

    def definitions(self) -> dict[str, int]:
        """The addresses of the symbols that other objects may link to."""
        found: dict[str, int] = {}
        for index, symbol in enumerate(self._tables.symbols):
            if symbol.binding == elf.GLOBAL and symbol.section not in (elf.UNDEFINED, elf.COMMON, elf.ABSOLUTE):
                start = self._layout.sections.get(symbol.section)
                if start is not None:
                    found[self._tables.symbol_name(index)] = self.base + start + symbol.value
        return found

    def link(self, resolve: Resolve) -> None:
        """Copies the sections, applies the relocations, and protects the pages."""
        layout = self._layout
        self._addresses = self._find_addresses(resolve)
        self._copy_sections()
        self._relocate()
        _protect(self.base, layout.code_end, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(self.base + layout.code_end, layout.constants_end - layout.code_end, mmap.PROT_READ)

    def _copy_sections(self) -> None:
        for index, offset in self._layout.sections.items():
            section = self._tables.sections[index]
            if section.kind == elf.PROGBITS:
                self.memory[offset : offset + section.size] = self._tables.content(index)

    def _relocate(self) -> None:
        for table in self._tables.sections:
            if table.kind not in (elf.RELA, elf.REL) or table.info not in self._layout.sections:
                continue
            if table.kind == elf.REL:
                name = self._tables.section_name(table.info)
                raise ArtefactError(f"the relocations of {name} carry no addends; x86-64 objects have them")
            self._relocate_section(table)

    def _relocate_section(self, table: elf.Section) -> None:
        start, nbytes = self._layout.sections[table.info], self._tables.sections[table.info].size
        count = len(self._addresses)
        for offset, info, addend in self._tables.relocations(table):
            kind, symbol = info & 0xFFFFFFFF, info >> 32
            rule = _RULES.get(kind)
            if rule is None:
                raise ArtefactError(f"relocation type {kind} {self._site(table, offset)} is unknown")
            if symbol >= count or offset + rule.word.size > nbytes:
                raise ArtefactError(f"damaged object: {rule.name} {self._site(table, offset)}, symbol {symbol}")
            place = start + offset
            try:
                rule.word.pack_into(self.memory, place, rule.value(self, symbol, addend, self.base + place))
            except struct.error:
                target = self._tables.symbol_name(symbol)
                raise ArtefactError(f"{rule.name} {self._site(table, offset)} does not reach {target}") from None

    def _site(self, table: elf.Section, offset: int) -> str:
        return f"at {self._tables.section_name(table.info)}+{offset:#x}"

    def exports(self) -> dict[str, int]:
        return {
            self._tables.symbol_name(index): self.address(index)
            for index, symbol in enumerate(self._tables.symbols)
            if symbol.section != elf.UNDEFINED and symbol.binding in (elf.GLOBAL, elf.WEAK)
        }

    def functions(self) -> Iterator[perf_map.Function]:
        """The functions that the object defines."""
        for index, symbol in enumerate(self._tables.symbols):
            if symbol.section != elf.UNDEFINED and symbol.kind == elf.FUNCTION:
                yield perf_map.Function(self.address(index), symbol.size, self._tables.symbol_name(index))

    def address(self, symbol: int) -> int:
        address = self._addresses[symbol]
        if address is None:
            raise ArtefactError(f"{self._tables.symbol_name(symbol)} is needed, but its section is not loaded")
        return address

    def callee(self, symbol: int) -> int:
        """The target of a 32-bit call of the symbol: the symbol itself, or a stub if it may be out of reach."""
        address = self.address(symbol)
        if self._tables.symbols[symbol].section != elf.UNDEFINED or abs(address - self.base) < 1 << 30:
            return address
        offset = self._stubs.get(symbol)
        if offset is None:
            offset = self._stubs[symbol] = self._layout.stubs + _STUB.size * len(self._stubs)
            _STUB.pack_into(self.memory, offset, b"\xff\x25\0\0\0\0", address)
        return self.base + offset

    def got_entry(self, symbol: int) -> int:
        """The address of the word of the global offset table that holds the symbol's address."""
        offset = self._got_entries.get(symbol)
        if offset is None:
            offset = self._got_entries[symbol] = self._layout.got + _WORD.size * len(self._got_entries)
            _WORD.pack_into(self.memory, offset, self.address(symbol))
        return self.base + offset

    def _find_addresses(self, resolve: Resolve) -> list[int | None]:
        addresses: list[int | None] = [0]  # the null symbol, which relocations without a symbol name
        missing: list[str] = []
        for index, symbol in enumerate(self._tables.symbols[1:], 1):
            try:
                addresses.append(self._find_address(index, symbol, resolve))
            except LookupError:
                addresses.append(0)  # the ABI's address of a weak symbol that nobody defines
                if symbol.binding != elf.WEAK or symbol.section != elf.UNDEFINED:
                    missing.append(self._tables.symbol_name(index) or f"symbol {index}, which has no name")
        if missing:
            raise ArtefactError(f"nothing in this process defines {', '.join(missing)}")
        return addresses

    def _find_address(self, index: int, symbol: elf.Symbol, resolve: Resolve) -> int | None:
        """A symbol's address; None if its section is not loaded. Raises LookupError for an external symbol that nobody
        defines."""
        if symbol.kind in (elf.TLS_SYMBOL, elf.INDIRECT_FUNCTION):
            kind = "thread-local" if symbol.kind == elf.TLS_SYMBOL else "an indirect function"
            raise ArtefactError(f"symbol {self._tables.symbol_name(index)} is {kind}; that is not handled")
        if symbol.section == elf.UNDEFINED:
            name = self._tables.symbol_name(index)
            return self.got if name == "_GLOBAL_OFFSET_TABLE_" else resolve(name)
        if symbol.binding == elf.WEAK:
            # A weak definition is the compiler's stand-in for a symbol of the process (`object_code.py`). As in any
            # link, the strong definition takes precedence; here it must exist.
            return resolve(self._tables.symbol_name(index))
        if symbol.section == elf.ABSOLUTE:
            return symbol.value
        if symbol.section == elf.COMMON:
            return self.base + self._layout.commons[index]
        if symbol.section >= len(self._tables.sections):
            raise ArtefactError(f"symbol {self._tables.symbol_name(index)} is in section {symbol.section:#x}: unknown")
        start = self._layout.sections.get(symbol.section)
        return None if start is None else self.base + start + symbol.value


class _Rule(NamedTuple):
    name: str
    word: struct.Struct
    value: Callable[[_Image, int, int, int], int]  # takes image, symbol, addend, and the address to write to


def _absolute(image: _Image, symbol: int, addend: int, place: int) -> int:
    return image.address(symbol) + addend


def _absolute_64(image: _Image, symbol: int, addend: int, place: int) -> int:
    return (image.address(symbol) + addend) & 0xFFFF_FFFF_FFFF_FFFF


def _relative(image: _Image, symbol: int, addend: int, place: int) -> int:
    return image.address(symbol) + addend - place


def _call(image: _Image, symbol: int, addend: int, place: int) -> int:
    return image.callee(symbol) + addend - place


def _got_entry(image: _Image, symbol: int, addend: int, place: int) -> int:
    return image.got_entry(symbol) + addend - place


def _got_offset(image: _Image, symbol: int, addend: int, place: int) -> int:
    return image.got_entry(symbol) + addend - image.got


def _from_got(image: _Image, symbol: int, addend: int, place: int) -> int:
    return image.address(symbol) + addend - image.got


def _got(image: _Image, symbol: int, addend: int, place: int) -> int:
    return image.got + addend - place


_U64, _S64, _U32, _S32 = (struct.Struct(code) for code in ("<Q", "<q", "<I", "<i"))

_RULES = {
    1: _Rule("R_X86_64_64", _U64, _absolute_64),
    2: _Rule("R_X86_64_PC32", _S32, _relative),
    4: _Rule("R_X86_64_PLT32", _S32, _call),
    9: _Rule("R_X86_64_GOTPCREL", _S32, _got_entry),
    10: _Rule("R_X86_64_32", _U32, _absolute),
    11: _Rule("R_X86_64_32S", _S32, _absolute),
    24: _Rule("R_X86_64_PC64", _S64, _relative),
    25: _Rule("R_X86_64_GOTOFF64", _S64, _from_got),
    27: _Rule("R_X86_64_GOT64", _S64, _got_offset),
    29: _Rule("R_X86_64_GOTPC64", _S64, _got),
    31: _Rule("R_X86_64_PLTOFF64", _S64, _from_got),
    41: _Rule("R_X86_64_GOTPCRELX", _S32, _got_entry),
    42: _Rule("R_X86_64_REX_GOTPCRELX", _S32, _got_entry),
}
