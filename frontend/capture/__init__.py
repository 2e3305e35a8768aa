"""Makes graphs of ATen ops from Dynamo's graph, by AOTAutograd.

The input is Dynamo's graph with the arguments of the first call; the output is forward and backward graphs of ATen ops
(`aot`). The other modules exchange facts with AOTAutograd: which arguments a graph may overwrite (`donation`), which
keep their memory from call to call (`static_inputs`), which ops run for their effect alone (`effects`), streams, random
numbers, and the key of its cache.
"""
