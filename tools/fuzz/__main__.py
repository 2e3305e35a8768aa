"""Command line of the fuzzer; exits with 1 if something fails, with 130 if Ctrl-C ended the run.

With --replay, exits with 2 if the file cannot be judged.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cuesta.tools.fuzz.failure import Note, Unjudged, failures_of
from cuesta.tools.fuzz.hunt import KINDS, Hunt, Progress
from cuesta.tools.fuzz.judge import Judge

_FOLDER = Path("build/fuzz")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a hunt over seeds, or judges the file that --replay names."""
    os.environ.setdefault("CUESTA_STRICT", "1")  # a kernel that does not compile must fail, not fall back
    parser = argparse.ArgumentParser(
        prog="python -m cuesta.tools.fuzz", description="compares random programs with eager"
    )
    parser.add_argument("kind", nargs="?", choices=KINDS, default="graphs", help="what to generate (graphs)")
    parser.add_argument("-n", "--count", type=int, default=1000, help="number of programs (1000)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="number of the first program (0)")
    parser.add_argument("--folder", type=Path, default=_FOLDER, help=f"where failures go ({_FOLDER})")
    parser.add_argument("--device", default="cpu", help="where torch programs run: cpu, cuda (cpu)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="number of processes (1)")
    parser.add_argument("--checked", action="store_true", help='compile with options={"checked": True}')
    parser.add_argument("--replay", type=Path, metavar="FILE", help="check this file instead")
    arguments = parser.parse_args(argv)
    if arguments.replay is not None:
        return _replay(arguments.replay, arguments.checked)
    kind = KINDS[arguments.kind]
    kind = kind.checking() if arguments.checked else kind
    if arguments.device != "cpu" and not kind.on_devices:
        parser.error(
            f"--device is for {', '.join(k.name for k in KINDS.values() if k.on_devices)}; not for {kind.name}"
        )
    hunt = Hunt(kind, arguments.folder, lambda line: print(line, flush=True), arguments.device)
    hunt.run(Progress(hunt, arguments.count).seeds(arguments.first), arguments.processes)
    for note, count in hunt.notes.most_common():
        print(f"{count:6} {note}", flush=True)
    for reason, count in hunt.unjudged.most_common():
        print(f"{count:6} cannot be judged: {reason}", flush=True)
    if hunt.failures:
        print(f"the failures are in {arguments.folder}", flush=True)
    return 130 if hunt.interrupted else 1 if hunt.failures else 0


def _replay(path: Path, checked: bool) -> int:
    fitting = [kind for kind in KINDS.values() if path.name.endswith(kind.suffix)]
    kind = max(fitting, key=lambda kind: len(kind.suffix))  # ".calls.py" rather than ".py"
    kind = kind.checking() if checked else kind
    try:
        with Judge(kind.check, environment=kind.environment) as judge:
            found = judge(path.read_text())
    except Unjudged as problem:
        print(f"cannot be judged: {problem}")
        return 2
    failures = failures_of(found)
    for failure in failures:
        print(f"{failure.kind}: {failure.message}")
    if not failures:
        print(f"nothing is wrong: {found.text}" if isinstance(found, Note) else "nothing is wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
