"""Makes one measurement in a fresh process: `python -m cuesta.tools.bench.worker compile CASE CONTENDER THREADS`.

The last line on stdout is the result as JSON; {"error": text} if the backend failed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from cuesta.runtime.executable import ARENAS
from cuesta.tools.bench.backends import fallbacks, one_line
from cuesta.tools.bench.cases import find_case
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.memory import measure, predicted_peak
from cuesta.tools.bench.workload import BACKWARD, FORWARD, Workload
from cuesta.torch_private.configs import allow_recurrent_layers
from cuesta.torch_private.dynamo import compilation_time_metrics


def compile_times(workload: Workload, contender: Contender) -> dict[str, Any]:
    """Seconds from torch.compile to the end of the first call, and the times that torch and cuesta report of stages."""
    # Eager first: one-time initialisation of torch and MKL is not compile time.
    workload.compiled("eager")()
    started = time.perf_counter()
    call = workload.compiled(contender.backend, contender.form)
    named = time.perf_counter()
    call()
    done = time.perf_counter()
    call()
    again = time.perf_counter()
    metrics = compilation_time_metrics
    return {
        "total": done - started,
        "torch.compile": named - started,
        "first_call": done - named,
        "second_call": again - done,
        "dynamo_metrics": {name: sum(values) for name, values in metrics.items()},
        "graphs": _report_graphs(contender),
    }


def peak_memory(workload: Workload, contender: Contender) -> dict[str, Any]:
    """Peak bytes of a warm call, with what cuesta predicted."""
    call = workload.compiled(contender.backend, contender.form)
    for _ in range(3):
        call()
    for parameter in workload.parameters:
        parameter.grad = None
    graphs = _report_graphs(contender)
    if graphs:
        # Frees the arena, so that the measured call allocates it and its bytes count.
        ARENAS.trim()
    use = measure(call, (FORWARD, BACKWARD))
    result: dict[str, Any] = {"peak": use.peak, "phases": use.phases}
    return result | {"predicted": predicted_peak(graphs)} if graphs else result


def _report_graphs(contender: Contender) -> list[dict[str, Any]]:
    if contender.backend != "cuesta":
        return []
    import cuesta

    if reasons := fallbacks():
        raise RuntimeError(f"not compiled, but run op by op in Python: {reasons[0]}")
    graphs: list[dict[str, Any]] = cuesta.report().as_dict()["graphs"]
    return graphs


def main() -> None:
    what, case, contender, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    allow_recurrent_layers()
    workload = find_case(case).make()
    measurement = {"compile": compile_times, "memory": peak_memory}[what]
    try:
        with torch.set_grad_enabled(bool(workload.parameters)):
            result = measurement(workload, Contender.parse(contender))
    except Exception as error:
        # Not as a traceback: if a compiler failed, the last line of that is Dynamo's advice and not the reason.
        result = {"error": one_line(error)}
    print(json.dumps(result, default=str))


if __name__ == "__main__":
    main()
