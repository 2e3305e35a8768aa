"""torch's graph into the cuesta dialect.

In comes a graph of ATen ops, as AOTAutograd makes it; out comes a module with one function `@graph` and the program's
calling convention (`importer`, `convention`). `capture` has AOTAutograd make those graphs, `decompositions` says which
ops it takes apart, `fx_passes` and `attention` rewrite them, `aten` has a rule for each op that is imported.
`python_steps` tells what no program can hold.

May import dialects, policy, runtime and the modules of cuesta/ itself; no pass, no lowering and no driver.
"""
