"""`options={"memory_limit": bytes}`: makes a plan that takes no more memory, or raises an error before anything runs.

`memory_limit` plans one program. `step_memory` limits what a training step's forward graph saves for the backward
graph.
"""
