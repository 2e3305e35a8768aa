"""Reads and merges the results that runs wrote with --json."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuesta.tools.bench.contenders import Contender

Results = dict[str, Any]
"""{"machine": …, "commands": […], section: {case: measurements}}."""


def command_line(argv: Sequence[str] | None) -> str:
    """The command line as it was typed; None stands for the process's own arguments."""
    return shlex.join(["cuesta-bench", *(argv if argv is not None else sys.argv[1:])])


def read_results(paths: Sequence[Path], sections: Sequence[str], cases: Collection[str]) -> Results:
    """Reads files as one run that has only the named cases. Ends the program with a message if two are of different
    CPUs, or of different numbers of threads, which no page tells apart."""
    parts = [json.loads(path.read_text()) for path in paths]
    made_by = [_cpu_of(part["machine"]) for part in parts]
    for path, own in zip(paths, made_by, strict=True):
        if own != made_by[0]:
            raise SystemExit(f"cuesta-bench: {path} is of {own}, {paths[0]} of {made_by[0]}: a page is of one of them")
    results = merged(parts, sections)
    for section in sections:
        results[section] = {name: found for name, found in results[section].items() if name in cases}
    return results


def _cpu_of(machine: Mapping[str, Any]) -> str:
    """What a run on a CPU was measured on; empty for runs on GPUs, which are added up over machines."""
    return "" if machine.get("gpu") else f"{machine.get('cpu')} with threads={machine.get('threads')}"


def merged(parts: Sequence[Results], sections: Sequence[str]) -> Results:
    """Merges runs. The last run wins for a case that several have, and for the machine; in a suite, for each mode."""
    result: Results = {"machine": parts[-1]["machine"], "commands": [], **{name: {} for name in sections}}
    for part in parts:
        result["commands"] += part.get("commands", [])
        for section in sections:
            for name, found in part.get(section, {}).items():
                earlier = result[section].get(name)
                result[section][name] = _by_mode(earlier, found) if earlier and section == "suite" else found
    return result


def _by_mode(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """A case of a suite from two runs: the later one's contenders, and the earlier one's of modes that the later has
    none of. Each of these keeps the eager run that it took turns with, and its commit and number of processes. If the
    later run has only cold compiles, the earlier one's eager run stays as well."""
    before, contenders = earlier.get("contenders", {}), later.get("contenders", {})
    modes = {found.form for found in map(Contender.parse, contenders) if found.compiles}
    run = {"commit": earlier["commit"], "processes": earlier["processes"]}
    kept = {
        name: run | {"eager": before.get("eager", {})} | part
        for name, part in before.items()
        if (found := Contender.parse(name)).compiles and found.form not in modes
    }
    if not contenders and "eager" in before:
        kept["eager"] = before["eager"]
    whole = {key: value for key, value in earlier.items() if key != "failed"} | dict(later)
    cold = {name: run | part for name, part in earlier.get("cold", {}).items()}
    return whole | {"contenders": contenders | kept, "cold": cold | later.get("cold", {})}


def stage_seconds(compiled: Mapping[str, Any]) -> float | None:
    """The time of cuesta's stages in a worker's result of compiling; None if it has no graph of cuesta's."""
    graphs = compiled.get("graphs")
    return sum(sum(graph["times"].values()) for graph in graphs) if graphs else None
