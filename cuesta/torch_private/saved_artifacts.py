"""Torch's store of cache artifacts (torch.compiler.save_cache_artifacts). Loaded with torch.

Without it, cuesta's graphs are not among the bytes that torch.compiler.save_cache_artifacts returns, and a warm start
on another machine compiles anew.
"""

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

__all__ = [
    # The base of a kind of artifact.
    "CacheArtifact",
    # Makes artifacts of registered kinds from bytes.
    "CacheArtifactFactory",
    # Records the artifacts of this process.
    "CacheArtifactManager",
]
