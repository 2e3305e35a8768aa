"""Names torch's minifier, which reduces failing graphs. Loads torch._dynamo and its debugging tools.

Without it, TORCHDYNAMO_REPRO_AFTER has no effect on cuesta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Raised where compiled results are not eager's; the minifier knows it by this type.
from torch._dynamo.debug_utils import AccuracyError as AccuracyError

# (graph, inputs) → both in float64, to tell which result is closer.
from torch._dynamo.debug_utils import cast_to_fp64 as cast_to_fp64

# Where the minified graph is written.
from torch._dynamo.debug_utils import get_minifier_repro_path as get_minifier_repro_path

# Writes a script that minifies.
from torch._dynamo.debug_utils import helper_for_dump_minify as helper_for_dump_minify

# Where scripts are.
from torch._dynamo.debug_utils import minifier_dir as minifier_dir

# Reads what a script was given.
from torch._dynamo.repro.after_aot import repro_common as repro_common

# Writes a script that repeats a failure.
from torch._dynamo.repro.after_aot import save_graph_repro as save_graph_repro

# Whether results are equal within the minifier's tolerances.
from torch._dynamo.utils import same as same


def minify(gm: Any, inputs: Any, **arguments: Any) -> Any:
    """Reduces a graph as long as it still fails. Loads torch's search, which only scripts need."""
    from torch._functorch.fx_minifier import minifier

    reduce: Callable[..., Any] = minifier
    return reduce(gm, inputs, **arguments)
