"""Imports torch's graphs into the cuesta dialect.

The input is a graph of ATen ops, as AOTAutograd makes it. The output is a module with one function `@graph` and the
program's calling convention (`importer`, `convention`). `capture` has AOTAutograd make the graphs, `decompositions`
says which ops AOTAutograd decomposes, `fx_passes` and `attention` rewrite graphs, `aten` has a rule for each op that is
imported; a rule gets a `call`. `python_steps` finds the nodes that no program can contain.

May import dialects, policy, runtime and the modules of cuesta/ itself; no pass, no lowering and no driver.
"""
