"""What runs keep with --json, read again and put together."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

Results = dict[str, Any]
"""{"machine": …, "commands": […], section: {case: what was measured}}."""


def command_line(argv: Sequence[str] | None) -> str:
    """As it was typed; None are the process's own arguments."""
    return shlex.join(["cuesta-bench", *(argv if argv is not None else sys.argv[1:])])


def read_results(paths: Sequence[Path], sections: Sequence[str], cases: Collection[str]) -> Results:
    """Files as one run, with the named cases alone."""
    results = merged([json.loads(path.read_text()) for path in paths], sections)
    for section in sections:
        results[section] = {name: found for name, found in results[section].items() if name in cases}
    return results


def merged(parts: Sequence[Results], sections: Sequence[str]) -> Results:
    """Runs as one; of a case that several have, the last. The machine is the last run's."""
    result: Results = {"machine": parts[-1]["machine"], "commands": [], **{name: {} for name in sections}}
    for part in parts:
        result["commands"] += part.get("commands", [])
        for section in sections:
            result[section] |= part.get(section, {})
    return result
