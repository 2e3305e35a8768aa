"""Rewrites of FX graphs, one a file, for the gradients of embeddings' tables.

A rewritten graph adds up the same rows, in another order.
"""
