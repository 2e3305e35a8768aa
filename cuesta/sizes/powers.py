"""Powers of two around a number."""

from __future__ import annotations


def power_at_least(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


def power_at_most(n: int) -> int:
    """The largest power of two that is at most n, 1 for n < 1."""
    return 1 << max(n.bit_length() - 1, 0)
