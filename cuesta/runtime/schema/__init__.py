"""Declares what the metadata of an artefact hold, as TypedDicts, and checks those of files against it.

mypy checks by these types what the compiler writes and the runtime reads. Start with `Metadata` in ../artefact.py for
the format, and with `metadata.py` for the checks.
"""
