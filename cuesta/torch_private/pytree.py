"""Torch's pytrees: nested containers of tensors. Loaded with torch, and without a public path.

Without them, no program can be exported, saved or called with nested arguments, and no result's tensors are found.
"""

from torch.utils._pytree import (
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_SERIALIZED_TYPES,
    TreeSpec,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_unflatten,
    treespec_dumps,
    treespec_loads,
)

__all__ = [
    # The three that treespecs.py reads to write and to check the containers of a saved program's arguments. Without
    # them, programs with containers other than tuples, lists and dicts cannot be saved.
    "NO_SERIALIZED_TYPE_NAME_FOUND",
    "SERIALIZED_TYPE_TO_PYTHON_TYPE",
    "SUPPORTED_SERIALIZED_TYPES",
    "TreeSpec",
    # A leaf's path as a user writes it, for messages about arguments.
    "keystr",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
]
