"""Fake tensors (sizes and strides without values), and what torch knows of the trace in progress. Loaded with torch."""

from __future__ import annotations

from typing import Any

from torch._guards import TracingContext

# The mode of the fake tensors among values, or None. Without it, an audit takes fake tensors for real ones.
from torch._guards import detect_fake_mode as detect_fake_mode

# Raised where a trace asks for a value, and where values decide a size. Without them, an audit cannot tell a model
# that has to be run on copies from one that fails.
from torch._subclasses.fake_tensor import DataDependentOutputException as DataDependentOutputException
from torch._subclasses.fake_tensor import DynamicOutputShapeException as DynamicOutputShapeException

# Makes copy.deepcopy of a module give fake parameters. Without it, an audit doubles the model's memory.
from torch._subclasses.fake_tensor import FakeCopyMode as FakeCopyMode

# What arguments are while a graph is compiled. Without it, a program of a call with fake tensors is run, and reads
# memory that is not there.
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor

# Makes fake tensors. Without it, nothing is traced without computing: audit, compile_for, a graph for given sizes.
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

# A context in which tensors are real. Without it, constant masks of attention are not evaluated, so that those that
# are causal, or say nothing, are read.
from torch._subclasses.fake_tensor import unset_fake_temporarily as unset_fake_temporarily


def forward_metadata() -> Any:
    """What AOTAutograd found out about the graph that it compiles now (ViewAndMutationMeta), or None. Without it,
    nothing is known of arguments that are donated, static, written or returned: memory is copied and not reused."""
    context = TracingContext.try_get()
    return context.fw_metadata if context is not None else None
