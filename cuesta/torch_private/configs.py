"""Reads and sets options of Dynamo, AOTAutograd and Inductor.

Torch loads each of them when a function here first asks for it.

torch.compiler.config has public names for few settings, and for none of these.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

Context = AbstractContextManager[Any]


def repro_after() -> str | None:
    """What torch's minifier watches ("dynamo", "aot"), or None: TORCHDYNAMO_REPRO_AFTER. Without it, the minifier sees
    no failure of cuesta's, because cuesta goes around it."""
    return torch._dynamo.config.repro_after


def repro_level() -> int:
    """What the minifier does with a graph: TORCHDYNAMO_REPRO_LEVEL. Without it, wrong results are not minified."""
    return torch._dynamo.config.repro_level


def minifiers_comparison() -> Any:
    """Dynamo's config, of which the minifier's comparison reads `same_two_models_use_fp64`, `repro_tolerance` and
    `repro_ignore_non_fp`. Without them, users cannot say what counts as wrong."""
    return torch._dynamo.config


def without_minifier() -> Context:
    """A context in which nothing is minified. Without it, a minifier's script would minify its own graphs."""
    return torch._dynamo.config.patch(repro_after=None)


def suppresses_errors() -> bool:
    """Whether Dynamo runs a graph in eager if the backend raises. Without it, LLVM's errors come after the compile,
    when Dynamo no longer handles them."""
    return torch._dynamo.config.suppress_errors


def writes_code_lazily() -> bool:
    """Whether Dynamo's graph modules write their code when it is read (LazyGraphModule)."""
    return torch._dynamo.config.use_lazy_graph_module


def recompiles(at_most: int, in_total: int) -> Context:
    """A context in which Dynamo compiles a function so many times. Without it, an audit, or the fuzzer, gets eager's
    results after eight compiles of a function, whatever changed."""
    return torch._dynamo.config.patch(recompile_limit=at_most, accumulated_recompile_limit=in_total)


def recurrent_layers() -> Context:
    """A context in which Dynamo traces nn.LSTM and its kin. Without it, Dynamo breaks the graph there, for any
    backend."""
    return torch._dynamo.config.patch(allow_rnn=True)


def allow_recurrent_layers() -> None:
    """From now on, Dynamo traces nn.LSTM and its kin."""
    torch._dynamo.config.allow_rnn = True


def backward_at_once() -> Context:
    """A context in which backward graphs are compiled with their forward graphs, even if nobody calls backward().
    Without it, an audit has no backward graphs, and a memory limit is not held by them."""
    return torch._functorch.config.patch(force_non_lazy_backward_lowering=True)


def compile_backward_at_once() -> None:
    """From now on, backward graphs are compiled with their forward graphs. Without it, torch's minifier script raises
    an error in torch for a graph with two backward graphs."""
    torch._functorch.config.force_non_lazy_backward_lowering = True


def merges_equal_nodes() -> bool:
    """Whether AOTAutograd is to merge equal nodes of a joint graph (cse)."""
    return torch._functorch.config.cse


def without_merging() -> Context:
    """A context in which torch's partitioner does not merge equal nodes, which cuesta has done. Without it, the
    partitioner loads all of Inductor's and of Triton's lowerings to do it again."""
    return torch._functorch.config.patch(cse=False)


def bundled_cache() -> Context:
    """A context in which AOTAutograd's cache keeps a backend's programs. Without it, a warm process runs AOTAutograd
    again."""
    return torch._functorch.config.patch(bundled_autograd_cache=True)


def memory_budget(share: float) -> Context:
    """A context in which the partitioner saves this share of what it would save. Without it, a memory limit cannot be
    held by computing values again."""
    return torch._functorch.config.patch(activation_memory_budget=share)


def inductors_options(options: dict[str, Any]) -> Context:
    """A context with options of Inductor's. Without it, the benchmark cannot time Inductor with freezing."""
    from torch._inductor import config

    return config.patch(options)
