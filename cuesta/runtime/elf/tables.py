"""Reads the tables of a relocatable x86-64 ELF object: section headers, symbols, relocations, names.

The bytes are not trusted: a range beyond the end of the file, or a name without an end, raises ArtefactError.
The fields follow the System V ABI, "Object Files"; the comments give the ABI's names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from cuesta.errors import ArtefactError

RELOCATABLE, X86_64 = 1, 62  # e_type, e_machine
PROGBITS, SYMTAB, RELA, NOTE, NOBITS, REL, UNWIND = 1, 2, 4, 7, 8, 9, 0x70000001  # sh_type
WRITE, ALLOC, RUN, TLS, COMPRESSED = 0x1, 0x2, 0x4, 0x400, 0x800  # sh_flags
UNDEFINED, RESERVED, ABSOLUTE, COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2  # st_shndx
GLOBAL, WEAK = 1, 2  # the binding in st_info
FUNCTION, TLS_SYMBOL, INDIRECT_FUNCTION = 2, 6, 10  # the type in st_info

_HEADER = struct.Struct("<4sBB10xHHI8x8xQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class _Header(NamedTuple):
    magic: bytes
    word_class: int
    byte_order: int
    kind: int
    machine: int
    version: int
    sections_offset: int
    flags: int
    header_size: int
    segment_size: int
    segment_count: int
    section_size: int
    section_count: int
    section_names: int


class Section(NamedTuple):
    """A section header."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """A symbol. `value` is an offset in its section; for a COMMON symbol, its alignment."""

    name: int
    info: int
    visibility: int
    section: int
    value: int
    size: int

    @property
    def binding(self) -> int:
        return self.info >> 4

    @property
    def kind(self) -> int:
        return self.info & 0xF


class ElfTables:
    """The sections and symbols of an object file. Raises ArtefactError for bytes that are no whole x86-64 object."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        header = _Header._make(_HEADER.unpack(self._range(0, _HEADER.size, "the ELF header")))
        _check(header)
        count = header.section_count
        headers = self._range(header.sections_offset, count * _SECTION.size, "the section header table")
        self.sections = [Section._make(row) for row in _SECTION.iter_unpack(headers)]
        self.symbols: list[Symbol] = []
        self._section_names = self._strings(header.section_names)
        self._symbol_names = b""
        for section in self.sections:
            if section.kind == SYMTAB:
                rows = self._entries(section, _SYMBOL.size, "the symbol table")
                self.symbols = [Symbol._make(row) for row in _SYMBOL.iter_unpack(rows)]
                self._symbol_names = self._strings(section.link)

    def section_name(self, index: int) -> str:
        return _string(self._section_names, self.sections[index].name)

    def symbol_name(self, index: int) -> str:
        """The name of a symbol; for a section's own symbol, the section's name."""
        symbol = self.symbols[index]
        if symbol.name == 0 and UNDEFINED < symbol.section < len(self.sections):
            return self.section_name(symbol.section)
        return _string(self._symbol_names, symbol.name)

    def content(self, index: int) -> bytes:
        """The bytes of a section that has bytes in the file (PROGBITS)."""
        section = self.sections[index]
        return self._range(section.offset, section.size, f"section {self.section_name(index)}")

    def relocations(self, table: Section) -> Iterator[tuple[int, int, int]]:
        """Rows (offset in the section, symbol << 32 | type, addend) of a RELA section."""
        return _RELOCATION.iter_unpack(self._entries(table, _RELOCATION.size, "a relocation table"))

    def _range(self, offset: int, size: int, what: str) -> bytes:
        if offset + size > len(self._data):
            raise ArtefactError(f"object cut short: {what} ends at byte {offset + size} of {len(self._data)}")
        return self._data[offset : offset + size]

    def _entries(self, section: Section, entry_size: int, what: str) -> bytes:
        if section.entry_size != entry_size or section.size % entry_size:
            raise ArtefactError(
                f"damaged object: {what} is {section.size} bytes in entries of {section.entry_size}, not {entry_size}"
            )
        return self._range(section.offset, section.size, what)

    def _strings(self, index: int) -> bytes:
        if index >= len(self.sections):
            raise ArtefactError(f"damaged object: it keeps names in section {index} of {len(self.sections)}")
        return self._range(self.sections[index].offset, self.sections[index].size, "a string table")


def _check(header: _Header) -> None:
    if header.magic != b"\x7fELF":
        raise ArtefactError(f"not an ELF object: it begins with {header.magic!r}")
    found = (header.word_class, header.byte_order, header.kind, header.machine)
    if found != (2, 1, RELOCATABLE, X86_64):
        raise ArtefactError(
            "not a relocatable 64-bit x86-64 object: (class, byte order, type, machine) are "
            f"{found}; (2, 1, {RELOCATABLE}, {X86_64}) is valid"
        )
    # If there are more than 0xff00 sections, this field is 0 and their count is elsewhere.
    if header.section_size != _SECTION.size or header.section_count == 0:
        raise ArtefactError(
            f"{header.section_count} section headers of {header.section_size} bytes; "
            f"1 to {RESERVED - 1} of {_SECTION.size} bytes are valid"
        )


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if end < 0:
        raise ArtefactError(f"damaged object: a name at byte {offset} of a string table of {len(table)} has no end")
    return table[offset:end].decode(errors="backslashreplace")
