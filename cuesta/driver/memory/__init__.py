"""`options={"memory_limit": bytes}`: a plan that holds no more, or an error before anything runs.

`memory_limit` is about one program, `step_memory` about what a training step's forward graph saves for the backward
one.
"""
