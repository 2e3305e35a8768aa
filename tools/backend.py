"""Registers the backend in tools that run from a checkout."""

from __future__ import annotations

import torch

from cuesta.torch_private.dynamo import register_backend


def register_cuesta() -> None:
    """Registers `cuesta` as a backend of torch.compile, unless an installed distribution did."""
    if "cuesta" not in torch.compiler.list_backends(exclude_tags=()):
        import cuesta

        register_backend(cuesta.backend, name="cuesta")
