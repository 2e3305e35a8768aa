"""Names the entry points of AOTAutograd and of its cache. Loads torch._functorch.aot_autograd.

Without aot_module_simplified nothing is compiled by torch.compile; the others are for what is said at each.
"""

# Raised for a graph that the cache is not to keep. Without it, such a graph fails.
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache as BypassAOTAutogradCache

# Whether the cache is to keep programs, and whether it is on. Without them, cuesta pickles what nobody keeps.
from torch._functorch._aot_autograd.autograd_cache import should_bundle_autograd_cache as should_bundle_autograd_cache
from torch._functorch._aot_autograd.autograd_cache import (
    should_use_local_autograd_cache as should_use_local_autograd_cache,
)

# Marks a compiler whose programs the cache may keep. Without it, a warm process runs AOTAutograd again.
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler as SerializableAOTDispatchCompiler

# (Dynamo's graph, inputs, compilers) → a function: makes functional ATen graphs, forward and backward.
from torch._functorch.aot_autograd import aot_module_simplified as aot_module_simplified
