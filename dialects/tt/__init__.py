"""Defines the tt dialect: Triton IR, built and verified here, compiled by Triton, run by the interpreter without a GPU.

`ops` lists the rows and builders, `types` the types; both are this package's names. `instructions` has the op for an
instruction of a GPU. The `rules` verify ops, and say which upstream ops a kernel may hold; `text` writes what Triton
reads.
"""

from cuesta.dialects.tt import rules, shape_rules, value_rules  # noqa: F401  they register the verifiers
from cuesta.dialects.tt.ops import *  # noqa: F403
from cuesta.dialects.tt.types import *  # noqa: F403
