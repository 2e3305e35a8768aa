"""Names torch's tables of decompositions, and the tests of strides that they use. Loaded with torch.

torch.export.default_decompositions is public but another table: it decomposes for exported programs.
"""

from torch._decomp import _core_aten_decompositions_post_autograd

# Core ATen's table for programs traced before autograd. Without it, the fuzzer has no graph to compare as told.
from torch._decomp import core_aten_decompositions as core_aten_decompositions

# All decompositions by overload. Without it, graphs of torch.export that resize an image of floats cannot share
# Dynamo's rule for bytes.
from torch._decomp import decomposition_table as decomposition_table

# The decompositions of some ops. Without it, those that core ATen leaves whole, such as losses, are called in ATen.
from torch._decomp import get_decompositions as get_decompositions

# A copy with equal strides, gaps and overlaps included. Without it, users' Triton kernels, and the minifier's
# comparison with eager, get arguments of another layout.
from torch._prims_common import clone_preserve_strides as clone_preserve_strides

# Whether elements and places of memory are one to one; False where that depends on sizes that the data decide, for
# which it adds no guard. Without it, rules cannot tell strides that a kernel must not take.
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_non_overlapping_and_dense_or_false

# The format (contiguous, channels last) that strides have. Without it, paddings and resized images are contiguous
# where eager's are channels last.
from torch._prims_common import suggest_memory_format as suggest_memory_format

#: The table for graphs that autograd has seen: what cuesta's own is made from. Without it, ops that have neither a rule
#: nor a decomposition of ours are called in ATen.
core_decompositions_after_autograd = _core_aten_decompositions_post_autograd
