"""`options={"tiered": True}`: the first call does not wait for the compiler.

In comes an ATen graph, out comes a callable at once: it runs op by op until the program is there, which a process in
the background compiles (`background`, `tier_worker`).
"""
