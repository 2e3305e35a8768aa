"""Defines what is measured: each case is a name and how to make a model or a function (`case`).

`cpu`, `gpu`, `suite` and `survey` list the cases; their models come from cuesta/tools/models, their functions from
`functions` and `kernels`. Out comes a `Workload`: what gets compiled, its arguments, and how a call of it trains.
Imports `contenders` of the other modules of the benchmark, nothing of its rooms.
"""

from cuesta.tools.bench.cases.case import Case
from cuesta.tools.bench.cases.cpu import CPU_CASES
from cuesta.tools.bench.cases.gpu import GPU_CASES
from cuesta.tools.bench.cases.suite import SUITE_CASES
from cuesta.tools.bench.cases.survey import SURVEY_CASES

_BY_NAME = {case.name: case for case in (*CPU_CASES, *SURVEY_CASES, *GPU_CASES, *SUITE_CASES)}


def find_case(name: str) -> Case:
    """The case called `name`. Raises KeyError."""
    return _BY_NAME[name]


__all__ = ["CPU_CASES", "GPU_CASES", "SUITE_CASES", "SURVEY_CASES", "Case", "find_case"]
