"""Names the function that torch.compile calls as backend "cuesta".

With a tested torch, this is the function of backend.py. A newer torch may lack a private name without which
backend.py cannot even be imported: then each graph runs op by op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuesta import torch_versions
from cuesta.driver.newer_torch import else_op_by_op, run_in_eager
from cuesta.reports import compile_report


def _backend() -> Callable[..., Any]:
    try:
        from cuesta.driver.backend import compile_fx_graph
    except torch_versions.LOST_NAME as error:
        if not torch_versions.is_untested():
            raise
        return _eager_because(torch_versions.told(error))
    return else_op_by_op(compile_fx_graph, run_in_eager)


def _eager_because(why: str) -> Callable[..., Any]:
    """A backend that compiles nothing. Mode and options have no effect."""

    def run(gm: Any, example_inputs: Any, **_: Any) -> Callable[..., Any]:
        return run_in_eager(gm, why)

    run.reset = compile_report.clear  # type: ignore[attr-defined]
    return run


compile_fx_graph = _backend()
