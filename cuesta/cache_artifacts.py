"""Supports torch.compiler.save_cache_artifacts and load_cache_artifacts: compiled graphs as bytes for another process.

    artifacts, info = torch.compiler.save_cache_artifacts()          # after compiled code has run
    torch.compiler.load_cache_artifacts(artifacts)                   # elsewhere, after `import torch, cuesta`

Loaded artifacts take precedence over the disk cache, and are written there when first used. Torch looks up a class for
each kind of artifact by name; importing this module registers ours.
"""

from __future__ import annotations

from cuesta.cache import Cache, Hit, Miss
from cuesta.torch_private.saved_artifacts import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

_KIND = "cuesta"

#: Key → payload of each loaded artifact, for as long as the process lives.
_LOADED: dict[str, bytes] = {}


@CacheArtifactFactory.register
class CuestaArtifact(CacheArtifact):
    """A cached program of cuesta's, under its key in the cache."""

    def populate_cache(self) -> None:
        _LOADED[self.key] = self.content

    @staticmethod
    def type() -> str:
        return _KIND


def record(key: str, payload: bytes) -> None:
    """Adds a program that was compiled, or taken from the cache, to the artifacts that torch saves."""
    CacheArtifactManager.record_artifact(_KIND, key, payload)


def look_up(key: str, cache: Cache) -> Hit | Miss:
    """The entry under `key`: what torch loaded, else the disk cache's."""
    return Hit(_LOADED[key]) if key in _LOADED else cache.get(key)


def is_loaded(key: str) -> bool:
    """Whether torch loaded an entry under `key`."""
    return key in _LOADED
