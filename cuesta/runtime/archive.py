"""Packs several object files into one archive in the format of `ar`, which objdump and nm read too.

    !<arch>\\n  | name/ … size `\\n | object, filled up to an even length | …

The archive has no symbol table, because all members are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuesta.errors import ArtefactError

_MAGIC = b"!<arch>\n"
_END = b"`\n"
_HEAD = 60  # bytes: name 16, date 12, owner 6, group 6, mode 8, size 10, end 2


def pack(members: Sequence[bytes]) -> bytes:
    """The archive of members, in their order. Equal members give equal bytes."""
    parts = [_MAGIC]
    for number, member in enumerate(members):
        head = b"%-16s%-12d%-6d%-6d%-8s%-10d" % (b"%d.o/" % number, 0, 0, 0, b"644", len(member))
        parts += [head, _END, member, b"\n" * (len(member) % 2)]
    return b"".join(parts)


def members(data: bytes) -> list[bytes]:
    """The members of an archive; `data` itself if it is no archive. Raises ArtefactError for a truncated archive."""
    return list(_members(data)) if data.startswith(_MAGIC) else [data]


def _members(data: bytes) -> Iterator[bytes]:
    start = len(_MAGIC)
    while start < len(data):
        head = data[start : start + _HEAD]
        size = head[48:58].strip()
        end = start + _HEAD + (int(size) if size.isdigit() else 0)
        if not (size.isdigit() and head.endswith(_END)) or end > len(data):
            raise ArtefactError(f"damaged archive of objects: no whole member at byte {start}")
        yield data[start + _HEAD : end]
        start = end + end % 2
