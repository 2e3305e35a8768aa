"""Holds what all passes use: the registry of passes by name, pipelines and their text, diagnostics, in-place rewriting.

Modules here may import dialects, but no pass.
"""
