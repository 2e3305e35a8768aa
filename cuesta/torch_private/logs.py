"""Asks torch which logs (TORCH_LOGS, TORCH_TRACE) and profilers are on. Loaded with torch.

Without the logs, neither shows what cuesta compiles, and unread_logs.py cannot tell that a trace wants graphs.
"""

from __future__ import annotations

import logging

import torch

# Where an event of the profiler ran. Without it, the benchmark cannot tell kernels from what launches them.
from torch._C._autograd import DeviceType as DeviceType
from torch._logging._internal import _setup_handlers, log_state

# (module, artifact) → a logger that TORCH_LOGS=artifact enables.
from torch._logging._internal import getArtifactLogger as getArtifactLogger

# The logger of TORCH_TRACE: it has handlers if a trace is written.
from torch._logging._internal import trace_log as trace_log

# Writes an artifact that tlparse shows.
from torch._logging._internal import trace_structured as trace_structured
from torch.autograd import profiler

#: (name) → a context that is an event of the profiler, written in C++ for what runs in each call; the public one is
#: torch.profiler.record_function. Without it, profiles show no compiled graphs.
RecordFunctionFast = torch._C._profiler._RecordFunctionFast


def is_artifact_wanted(name: str) -> bool:
    """Whether TORCH_LOGS or torch._logging.set_logs asked for an artifact."""
    return log_state.is_artifact_enabled(name)


def print_as_torch(log: logging.Logger) -> None:
    """Adds torch's handler to a logger: torch does it for its own loggers only."""
    _setup_handlers(logging.StreamHandler, log)


def is_profiling() -> bool:
    """Whether a profiler records now. Without it, every call makes an event, recorded or not."""
    return profiler._is_profiler_enabled
