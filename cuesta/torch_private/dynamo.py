"""Names Dynamo's errors, counters, callbacks and backends. Loads torch._dynamo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# Make a size dynamic, or an address static, in the next trace. Without them, models and fuzzed programs are not
# checked with symbolic sizes and with static arguments, and CUDA graphs copy the caches of the benchmark's decoders.
from torch._dynamo import mark_dynamic as mark_dynamic
from torch._dynamo import mark_static_address as mark_static_address
from torch._dynamo import maybe_mark_dynamic as maybe_mark_dynamic

# Names a backend. Without it, tools in a checkout that is not installed cannot pass "cuesta" to torch.compile.
from torch._dynamo import register_backend as register_backend

# Name → backend of torch.compile. Without it, the fuzzer cannot wrap a backend that is given by name.
from torch._dynamo.backends.registry import lookup_backend as lookup_backend
from torch._dynamo.callback import callback_handler, on_compile_end, on_compile_start
from torch._dynamo.eval_frame import OptimizeContext, innermost_backend

# What a backend's exception is wrapped in. Without it, op_coverage takes Dynamo's failures for cuesta's.
from torch._dynamo.exc import BackendCompilerFailed as BackendCompilerFailed

# Raised to have Dynamo trace again: no failure. Without it, the counter of failures counts it.
from torch._dynamo.exc import TensorifyScalarRestartAnalysis as TensorifyScalarRestartAnalysis

# Dynamo's own failures. Without it, op_coverage stops at what Dynamo cannot trace.
from torch._dynamo.exc import TorchDynamoException as TorchDynamoException

# Where Dynamo knows a number from: here a call of Python's random. Without it, a program misreads such numbers:
# Dynamo traces the default dtype and passes f64.
from torch._dynamo.source import RandomValueSource as RandomValueSource

# Function of torch's → the seconds of its calls. Without it, the benchmark's compile times are not by part.
from torch._dynamo.utils import compilation_time_metrics as compilation_time_metrics

# torch's counts of graphs and breaks. Without it, torch's tools count no graph of cuesta's.
from torch._dynamo.utils import counters as counters

# (graph, inputs, compile) → a function that takes nested inputs. Without it, graphs with lists among their inputs, as
# compiled autograd makes, are refused.
from torch._dynamo.utils import flatten_graph_inputs as flatten_graph_inputs

# The graph breaks since the process began. Without it, an audit names none.
from torch._dynamo.utils import graph_break_reasons as graph_break_reasons


def call_around_compiles(begin: Callable[[Any], None], end: Callable[[Any], None]) -> None:
    """Registers functions with Dynamo, until torch.compiler.reset: `begin` is called when a first thread begins to
    compile, `end` when the last thread has finished. Without it, Python's garbage collector runs during compiles
    (collector.py)."""
    if begin not in callback_handler.start_callbacks:
        on_compile_start(begin)
        on_compile_end(end)


def original_of(model: Any) -> Any:
    """The module or function that torch.compile was given for `model`, which may itself be the original. Without it, an
    audit of a compiled model traces nothing."""
    return getattr(model, "_orig_mod", getattr(model, "_torchdynamo_orig_callable", model))


def backend_of(context: Any) -> Any:
    """The backend of a compiled function's context; None for any other object. Without it, an audit ignores the mode
    and options that a model was compiled with."""
    if isinstance(context, OptimizeContext) and callable(context.callback):
        return innermost_backend(context.callback)
    return None


def aot_autograd(**arguments: Any) -> Callable[..., Any]:
    """A backend of AOTAutograd's with other compilers. Without it, the fuzzer has no ATen graphs of a program. Loads
    Inductor's scheduler."""
    from torch._dynamo.backends.common import aot_autograd

    made: Callable[..., Any] = aot_autograd(**arguments)
    return made


def external_stream(number: int) -> torch.Stream:
    """The stream object that a graph names by a number, in the call in progress. Without it, graphs with streams of the
    user's fail. Not every torch that cuesta runs on has the module, nor such graphs."""
    from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index

    return get_external_object_by_index(number)
