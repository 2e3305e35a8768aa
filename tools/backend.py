"""The backend in processes of tools that run from a checkout."""

from __future__ import annotations

import torch
import torch._dynamo


def register_cuesta() -> None:
    """Makes `cuesta` a backend where no installed distribution does."""
    if "cuesta" not in torch._dynamo.list_backends(exclude_tags=()):
        import cuesta

        torch._dynamo.register_backend(cuesta.backend, name="cuesta")
