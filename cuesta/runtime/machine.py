"""Identifies this machine's processor and its instruction sets, so that code for other instructions can be refused."""

from __future__ import annotations

import functools
import itertools
import platform
import re

CPUINFO = "/proc/cpuinfo"

#: Flags of /proc/cpuinfo on x86-64 for instruction sets that a compiler may use.
_INSTRUCTIONS = re.compile(
    r"(sse|ssse|avx|amx|fma|f16c|bmi|sha|vaes|vpclmul|gfni|rd)\w*|abm|popcnt|movbe|adx|aes|pclmulqdq|cx16|lahf_lm"
)


def first_processor() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo, in order; empty on other systems than Linux.

    The first processor stands for all: reading on costs milliseconds per hundred processors.
    """
    try:
        with open(CPUINFO, encoding="utf-8", errors="replace") as file:
            pairs = (line.partition(":") for line in itertools.takewhile(str.strip, file))
            return {name.strip(): value.strip() for name, _, value in pairs}
    except OSError:
        return {}


@functools.cache
def instructions() -> frozenset[str]:
    """The name of this machine's architecture, and the names of the instruction sets of its first processor."""
    processor = first_processor()
    flags = {flag for flag in processor.get("flags", "").split() if _INSTRUCTIONS.fullmatch(flag)}
    listed = processor.get("Features", "").split()  # on Arm this field has only instruction sets
    return frozenset({platform.machine(), *flags, *listed})
