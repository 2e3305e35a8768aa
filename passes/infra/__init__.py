"""What passes are made of: the registry of passes by name, pipelines and their text, diagnostics, rewriting in place.

May import dialects; no pass.
"""
