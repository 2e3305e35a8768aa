"""Torch's minifier of failing graphs. Loads torch._dynamo and its debugging tools.

Without it, TORCHDYNAMO_REPRO_AFTER has no effect on cuesta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.debug_utils import (
    AccuracyError,
    cast_to_fp64,
    get_minifier_repro_path,
    helper_for_dump_minify,
    minifier_dir,
)
from torch._dynamo.repro.after_aot import repro_common, save_graph_repro
from torch._dynamo.utils import same

__all__ = [
    # Raised where compiled results are not eager's; the minifier knows it by this type.
    "AccuracyError",
    # (graph, inputs) → both in float64, to tell which result is closer.
    "cast_to_fp64",
    # Where the minified graph is written, and where scripts are.
    "get_minifier_repro_path",
    # Writes a script that minifies.
    "helper_for_dump_minify",
    "minifier_dir",
    "minify",
    # Reads what a script was given.
    "repro_common",
    # Whether results are equal within the minifier's tolerances.
    "same",
    # Writes a script that repeats a failure.
    "save_graph_repro",
]


def minify(gm: Any, inputs: Any, **arguments: Any) -> Any:
    """Reduces a graph as long as it still fails. Loads torch's search, which only scripts need."""
    from torch._functorch.fx_minifier import minifier

    reduce: Callable[..., Any] = minifier
    return reduce(gm, inputs, **arguments)
