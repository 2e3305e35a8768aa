"""Graphs of ATen ops from Dynamo's graph, by AOTAutograd.

In comes Dynamo's graph with the arguments of the first call, out come forward and backward graphs of ATen ops
(`aot`). The others are what AOTAutograd has to be told: which arguments a graph may overwrite (`donation`), which stay
where they are (`static_inputs`), which ops run for their effect alone (`effects`), streams, random numbers, and the
key of its cache.
"""
