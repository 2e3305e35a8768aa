"""Checks the contents of artefact files against one schema of types and consistency rules. Start with `metadata.py`."""
