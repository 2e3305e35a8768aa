"""Formats quantities for people."""

from __future__ import annotations


def count_text(number: int, noun: str, plural: str | None = None) -> str:
    """`1 kernel`, `2 kernels`; `plural` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def size_text(count: float) -> str:
    """A number of bytes as text."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
