"""Which instructions this machine has, to refuse code that needs others."""

from __future__ import annotations

import functools
import platform
import re

#: Flags of /proc/cpuinfo on x86-64 that stand for instructions which a compiler may choose.
_INSTRUCTIONS = re.compile(
    r"(sse|ssse|avx|amx|fma|f16c|bmi|sha|vaes|vpclmul|gfni|rd)\w*|abm|popcnt|movbe|adx|aes|pclmulqdq|cx16|lahf_lm"
)


@functools.cache
def instructions() -> frozenset[str]:
    """The names of the instruction sets that this machine's first processor has, after its architecture's own name."""
    found = {platform.machine()}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "flags":
                    found |= {flag for flag in value.split() if _INSTRUCTIONS.fullmatch(flag)}
                    break
                if name.strip() == "Features":  # Arm lists instructions only
                    found |= set(value.split())
                    break
    except OSError:
        return frozenset(found)
    return frozenset(found)
