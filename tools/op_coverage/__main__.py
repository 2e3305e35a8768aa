"""Runs the survey of operators from the command line; exits with 1 if a result is wrong or something raises."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cuesta.tools.op_coverage.entries import DTYPES, LAYOUTS, PAGE_DTYPES, TARGETS, units
from cuesta.tools.op_coverage.survey import read_records, survey, write_records
from cuesta.tools.op_coverage.table import called_in_aten, render

_RECORDS = Path("build/op_coverage.jsonl")
#: Samples of each operator and dtype.
_SAMPLES = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Surveys the operators that the arguments choose."""
    os.environ.setdefault("CUESTA_STRICT", "1")  # report a kernel that does not compile; no fallback
    parser = argparse.ArgumentParser(
        prog="python -m cuesta.tools.op_coverage", description="compares torch's operators, compiled, with eager"
    )
    parser.add_argument(
        "--ops", default="", metavar="REGEX", help="only operators whose name in op_db contains a match"
    )
    parser.add_argument("--dtypes", default=",".join(PAGE_DTYPES), help=f"some of {','.join(DTYPES)} (the first five)")
    parser.add_argument("--layout", default="given", choices=LAYOUTS, help="layout of the samples' tensors (given)")
    parser.add_argument("--target", default="cpu", choices=TARGETS, help="tt: a GPU's kernels, interpreted (cpu)")
    parser.add_argument(
        "--samples", type=int, default=_SAMPLES, help=f"samples of each operator and dtype ({_SAMPLES})"
    )
    parser.add_argument("--all", action="store_true", help="run every sample")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="number of processes (one for each core)"
    )
    parser.add_argument("--records", type=Path, default=_RECORDS, help=f"file of JSON lines to append to ({_RECORDS})")
    parser.add_argument("--resume", action="store_true", help="skip what has a record")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table of all records to this file")
    arguments = parser.parse_args(argv)
    dtypes = tuple(arguments.dtypes.split(","))
    if unknown := set(dtypes) - set(DTYPES):
        parser.error(f"--dtypes: no {', '.join(sorted(unknown))}; there are {', '.join(DTYPES)}")
    chosen = units(arguments.ops, dtypes, arguments.layout, arguments.target)
    if not chosen:
        parser.error(f"--ops: no operator's name matches {arguments.ops!r}")
    done = read_records(arguments.records) if arguments.resume else {}
    most = None if arguments.all else arguments.samples
    survey(
        [unit for unit in chosen if unit not in done],
        most,
        arguments.processes,
        lambda record: write_records(arguments.records, [record]),
        lambda line: print(line, flush=True),
    )
    records = read_records(arguments.records)
    if arguments.page is not None:
        arguments.page.write_text(render(list(records.values()), most))
    judged = [records[unit] for unit in chosen]
    print("called in ATen:", called_in_aten(judged) or "nothing")
    return int(any((r.forward + r.gradient)[v] for r in judged for v in ("wrong", "raised")))


if __name__ == "__main__":
    sys.exit(main())
