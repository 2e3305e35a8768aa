"""Rewrites torch's FX graphs; each module has one rewrite.

A rewritten graph computes the same. `frontend/fx_pipelines.py` says which stage runs each, and why then;
`fx_pipeline` holds what passes and stages are.
"""
