"""Holds the analyses of a graph that several passes share. None of them changes a module.

`aliases` says which values share memory, `layout` and `memory_order` where elements lie. `match` reads a graph upwards
from a value, and `launches` reads what a host function's launches say of a kernel.
"""
