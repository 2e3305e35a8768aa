"""Registers the backend in tools that run from a checkout."""

from __future__ import annotations

import torch
import torch._dynamo


def register_cuesta() -> None:
    """Registers `cuesta` as a backend of torch.compile, unless an installed distribution did."""
    if "cuesta" not in torch._dynamo.list_backends(exclude_tags=()):
        import cuesta

        torch._dynamo.register_backend(cuesta.backend, name="cuesta")
