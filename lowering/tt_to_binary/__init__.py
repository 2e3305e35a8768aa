"""tt → binary: Triton compiles each kernel's text, in worker processes, without a GPU.

    KernelText("softmax", '"builtin.module"() …', warps=4, stages=3)   →   KernelBinary(code=<cubin>, shared=16, …)

`kernels.py` is the way in; a worker is `worker.py`, which needs `compile.py` and Triton, and neither torch nor MLIR's
bindings. So this module imports nothing: every worker imports it.
"""
