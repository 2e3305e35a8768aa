"""Compiles small models of all kinds and compares them with eager: in eval, in training, and at several batch sizes.

`python -m cuesta.tools.model_suite` runs them and writes docs/models.md.
"""
