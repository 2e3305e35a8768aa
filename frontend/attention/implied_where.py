"""Defines a custom op that says which scores count where a mask says so as well (spelled_out_masks.py)."""

from __future__ import annotations

import torch
from torch import Tensor

from cuesta.torch_private.ops import implementation


@torch.library.custom_op("cuesta::implied_where", mutates_args=())
def implied_where(condition: Tensor, x: Tensor, other: float) -> Tensor:
    """x where `condition` holds, else `other`; the three broadcast. What reads the result computes the same from x."""
    return torch.where(condition, x, other)


implied_where.register_fake(implementation(implied_where))
