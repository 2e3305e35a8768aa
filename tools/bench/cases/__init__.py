"""Defines what is measured: each case is a name and how to make a model or a function (`case`).

`cpu`, `gpu`, `suite`, `survey` and `language` list the cases; their models come from cuesta/tools/models, their
functions from `functions`, `kernels` and `attention`, their texts from `decoding`. Out comes a `Workload`: what gets
compiled, its arguments, and how a call of it trains.
Imports `contenders` of the other modules of the benchmark, nothing of its rooms.
"""

from cuesta.tools.bench.cases.case import Case
from cuesta.tools.bench.cases.cpu import CPU_CASES
from cuesta.tools.bench.cases.gpu import GPU_CASES
from cuesta.tools.bench.cases.language import LANGUAGE_CASES
from cuesta.tools.bench.cases.suite import SUITE_CASES
from cuesta.tools.bench.cases.survey import SURVEY_CASES

_LISTS = (CPU_CASES, SURVEY_CASES, GPU_CASES, SUITE_CASES, *LANGUAGE_CASES.values())
_BY_NAME = {case.name: case for cases in _LISTS for case in cases}


def find_case(name: str) -> Case:
    """The case called `name`. Raises KeyError."""
    return _BY_NAME[name]


__all__ = ["CPU_CASES", "GPU_CASES", "LANGUAGE_CASES", "SUITE_CASES", "SURVEY_CASES", "Case", "find_case"]
