"""Changed files, entries of the cache and saved programs: changed, judged, and the change made smaller."""
