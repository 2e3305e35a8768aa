"""Defines torch.ops.cuesta: custom ops, each registered when its name is first used.

Torch takes 2 to 5 ms to register an op, and most graphs use none.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

from cuesta.torch_private.ops import OpNamespace

#: Op → the module that defines it.
DEFINED_IN = {
    "attention": "cuesta.frontend.attention.attention_ops",
    "attention_backward": "cuesta.frontend.attention.attention_ops",
    "dropout_attention": "cuesta.frontend.attention.attention_ops",
    "dropout_attention_backward": "cuesta.frontend.attention.attention_ops",
    "seeded_attention": "cuesta.frontend.attention.attention_ops",
    "biased_attention_backward": "cuesta.frontend.attention.attention_ops",
    "implied_where": "cuesta.frontend.attention.implied_where",
    "batch_norm_statistics": "cuesta.frontend.decompositions.batch_norm_ops",
    "batch_norm_backward": "cuesta.frontend.decompositions.batch_norm_ops",
    "max_pool_backward": "cuesta.frontend.decompositions.max_pool_ops",
    "normalised": "cuesta.frontend.decompositions.norm_ops",
    "resize_bytes": "cuesta.frontend.decompositions.byte_image_ops",
    "packed_convolution": "cuesta.driver.freezing.packed_convolutions",
    "packed_convolution_add": "cuesta.driver.freezing.packed_convolutions",
    "packed_convolution_add_": "cuesta.driver.freezing.packed_convolutions",
    "packed_mm": "cuesta.driver.freezing.packed_products",
}


class _OwnOps(OpNamespace):
    #: FX writes this name into a graph's text, which AOTAutograd's cache keeps and evaluates again.
    __module__ = OpNamespace.__module__

    def __getattr__(self, name: str) -> Any:
        if name in DEFINED_IN:
            importlib.import_module(DEFINED_IN[name])
        return super().__getattr__(name)


vars(torch.ops)["cuesta"] = _OwnOps("cuesta")
