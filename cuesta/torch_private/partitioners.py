"""Names torch's partitioner of joint graphs and its tables of ops. Loads torch._functorch.partitioners."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from torch._functorch import partitioners

# (joint graph, inputs, …) → forward and backward graph. Without it, no training step is compiled.
from torch._functorch.partitioners import min_cut_rematerialization_partition as min_cut_rematerialization_partition


def default_ops() -> Any:
    """The ops that the partitioner counts as fusible, as recomputable and so on (OpTypes). Without it, values that
    cuesta computes in the loops of other ops are saved, which takes memory."""
    return partitioners.get_default_op_list()


def with_ops(types: Any) -> AbstractContextManager[object]:
    """A context in which the partitioner goes by `types`. It has no argument for them."""
    return mock.patch.object(partitioners, "get_default_op_list", lambda: types)
