"""Names torch's store of cache artifacts (torch.compiler.save_cache_artifacts). Loaded with torch.

Without it, cuesta's graphs are not among the bytes that torch.compiler.save_cache_artifacts returns, and a warm start
on another machine compiles anew.
"""

# The base of a kind of artifact.
from torch.compiler._cache import CacheArtifact as CacheArtifact

# Makes artifacts of registered kinds from bytes.
from torch.compiler._cache import CacheArtifactFactory as CacheArtifactFactory

# Records the artifacts of this process.
from torch.compiler._cache import CacheArtifactManager as CacheArtifactManager
