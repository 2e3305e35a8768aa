"""Compiles programs in another process.

In comes an ATen graph. With `options={"tiered": True}` out comes a callable at once, which runs the graph op by op
until the worker has compiled the program (`tiered`): the first call does not wait for the compiler. Of a training step
the worker compiles the backward graph, while this process compiles the forward graph (`ahead`). `service` sends graphs
to the worker, which is `worker`.
"""
