"""tt → binary: Triton compiles each kernel's text, in worker processes, without a GPU.

    KernelText("softmax", '"builtin.module"() …', warps=4, stages=3)   →   KernelBinary(code=<cubin>, shared=16, …)

`kernels.py` is the entry point. A server process (`server.py`) imports Triton once and forks the workers. A worker runs
`worker.py`, which needs `compile.py` and Triton, but neither torch nor MLIR's bindings. This module imports nothing,
because the server imports it.
"""
