"""Tells the versions of installed distributions, without importing them."""

from __future__ import annotations

import importlib.metadata


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution, such as "torch-mlir"; None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
