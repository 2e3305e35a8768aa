"""Names torch's functions on pytrees, nested containers of tensors. Loaded with torch, and without a public path.

Without them, no program can be exported, saved or called with nested arguments, and no result's tensors are found.
"""

# The three that treespecs.py reads to write and to check the containers of a saved program's arguments. Without them,
# programs with containers other than tuples, lists and dicts cannot be saved.
from torch.utils._pytree import NO_SERIALIZED_TYPE_NAME_FOUND as NO_SERIALIZED_TYPE_NAME_FOUND
from torch.utils._pytree import SERIALIZED_TYPE_TO_PYTHON_TYPE as SERIALIZED_TYPE_TO_PYTHON_TYPE
from torch.utils._pytree import SUPPORTED_SERIALIZED_TYPES as SUPPORTED_SERIALIZED_TYPES
from torch.utils._pytree import TreeSpec as TreeSpec

# A leaf's path as a user writes it, for messages about arguments.
from torch.utils._pytree import keystr as keystr
from torch.utils._pytree import tree_flatten as tree_flatten
from torch.utils._pytree import tree_flatten_with_path as tree_flatten_with_path
from torch.utils._pytree import tree_leaves as tree_leaves
from torch.utils._pytree import tree_map as tree_map
from torch.utils._pytree import tree_map_only as tree_map_only
from torch.utils._pytree import tree_unflatten as tree_unflatten
from torch.utils._pytree import treespec_dumps as treespec_dumps
from torch.utils._pytree import treespec_loads as treespec_loads
