"""Holds the passes that stay on their level, one a file, and the pipelines of these passes and the lowerings."""
