"""`options={"tiered": True}`: the first call does not wait for the compiler.

In comes an ATen graph, out comes a callable at once. It runs the graph op by op until a background process has compiled
the program (`background`, `tier_worker`).
"""
