"""Runs the suite from the command line; exits with 1 if a model is wrong or raises."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from cuesta.tools.model_suite.check import OPTIONS, WAYS, Verdict, check_case
from cuesta.tools.model_suite.page import render
from cuesta.tools.models import SUITE, SuiteCase


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the models that the arguments choose."""
    os.environ.setdefault("CUESTA_STRICT", "1")  # report a kernel that does not compile; no fallback
    parser = argparse.ArgumentParser(
        prog="python -m cuesta.tools.model_suite", description="compares small models, compiled, with eager"
    )
    parser.add_argument("--models", default="", metavar="REGEX", help="only models whose name contains a match")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="how to run the models (all ways)")
    parser.add_argument("--checked", action="store_true", help='compile with options={"checked": True}')
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table to this file")
    arguments = parser.parse_args(argv)
    chosen = [case for case in SUITE if re.search(arguments.models, case.name, re.IGNORECASE)]
    if not chosen:
        parser.error(
            f"--models: no name matches {arguments.models!r}; the names are {', '.join(c.name for c in SUITE)}"
        )
    options = {**OPTIONS, "checked": True} if arguments.checked else OPTIONS
    is_whole = list(arguments.ways) == list(WAYS)
    if arguments.page and not is_whole:
        parser.error("--page needs every model run in all ways: leave out --ways")
    results: list[tuple[SuiteCase, dict[str, Verdict]]] = []
    for case in chosen:
        verdicts = check_case(case, {way: WAYS[way] for way in arguments.ways}, options)
        results.append((case, verdicts))
        said = ", ".join(f"{way} {v.wrong or f'{v.counts.seconds:.1f} s'}" for way, v in verdicts.items())
        print(f"{case.name}: {said}", flush=True)
        if arguments.page:  # after each model, because the whole suite takes half an hour
            arguments.page.write_text(_page(results))
    if not arguments.page and is_whole:
        print(_page(results))
    return int(any(v.wrong for _, verdicts in results for v in verdicts.values()))


def _page(results: Sequence[tuple[SuiteCase, dict[str, Verdict]]]) -> str:
    done = [case for case, _ in results]
    return render(results, [case.name for case in SUITE if case not in done])


if __name__ == "__main__":
    sys.exit(main())
