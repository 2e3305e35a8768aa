"""AOTAutograd and its cache. Loads torch._functorch.aot_autograd.

Without aot_module_simplified nothing is compiled by torch.compile; the others are for what is said at each.
"""

from torch._functorch._aot_autograd.autograd_cache import (
    BypassAOTAutogradCache,
    should_bundle_autograd_cache,
    should_use_local_autograd_cache,
)
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.aot_autograd import aot_module_simplified

__all__ = [
    # Raised for a graph that the cache is not to keep. Without it, such a graph fails.
    "BypassAOTAutogradCache",
    # Marks a compiler whose programs the cache may keep. Without it, a warm process runs AOTAutograd again.
    "SerializableAOTDispatchCompiler",
    # (Dynamo's graph, inputs, compilers) → a function: makes functional ATen graphs, forward and backward.
    "aot_module_simplified",
    # Whether the cache is to keep programs, and whether it is on. Without them, cuesta pickles what nobody keeps.
    "should_bundle_autograd_cache",
    "should_use_local_autograd_cache",
]
