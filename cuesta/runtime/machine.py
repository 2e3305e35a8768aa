"""What this machine's processor is, and which instructions it has, to refuse code that needs others."""

from __future__ import annotations

import functools
import itertools
import platform
import re

CPUINFO = "/proc/cpuinfo"

#: Flags of /proc/cpuinfo on x86-64 that stand for instructions which a compiler may choose.
_INSTRUCTIONS = re.compile(
    r"(sse|ssse|avx|amx|fma|f16c|bmi|sha|vaes|vpclmul|gfni|rd)\w*|abm|popcnt|movbe|adx|aes|pclmulqdq|cx16|lahf_lm"
)


def first_processor() -> dict[str, str]:
    """What Linux says of the first processor, which stands for all, in its order; nothing elsewhere.

    Reading on costs milliseconds a hundred processors.
    """
    try:
        with open(CPUINFO, encoding="utf-8", errors="replace") as file:
            pairs = (line.partition(":") for line in itertools.takewhile(str.strip, file))
            return {name.strip(): value.strip() for name, _, value in pairs}
    except OSError:
        return {}


@functools.cache
def instructions() -> frozenset[str]:
    """The names of the instruction sets that this machine's first processor has, after its architecture's own name."""
    processor = first_processor()
    flags = {flag for flag in processor.get("flags", "").split() if _INSTRUCTIONS.fullmatch(flag)}
    listed = processor.get("Features", "").split()  # Arm lists instructions only
    return frozenset({platform.machine(), *flags, *listed})
