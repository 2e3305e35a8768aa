"""host → LLVM: the host function becomes the entry `cuesta_main`, in one module with its kernels.

    module @kernels { llvm.func @exp__tiles(ptr, ptr, …) }  llvm.func @exp__tiles(ptr, ptr, i64, i64)
    func.func @graph(%x: memref<8xf32>) {                   llvm.func @cuesta_main(%slots: ptr) -> i32 {
      %0 = host.alloc() {owner = "torch"}              →      llvm.call @cuesta_allocate(…)
      host.launch(%x, %0) {@kernels::@exp}                    llvm.call @cuesta_run(…, @_mlir_exp__tiles)
      return %0                                               llvm.return 0

The entry returns
- 0 if all steps succeed;
- n if step n failed: a call of torch, whose message is torch's last, a check, a launch on a GPU, or a launch of a
  checked kernel;
- -n if the call of step n returned other sizes or dtypes than at trace time;
- MISFIT if an argument is not what the program was compiled for (argument_step.py); nothing has run then.
`layout.py` describes the slots.
"""

from __future__ import annotations

from cuesta._mlir import func, ir
from cuesta.dialects.fields import Numbers
from cuesta.dialects.kernel_module import TAIL, TILES, kernel_modules
from cuesta.dialects.upstream_fields import SYM_NAME
from cuesta.errors import CompileError
from cuesta.lowering.host_to_llvm.entry import ENTRY, EntryWriter, signed
from cuesta.lowering.host_to_llvm.launch_step import Kernel, with_function
from cuesta.lowering.host_to_llvm.layout import read_host
from cuesta.passes.infra.registry import Pass, register_pass

__all__ = ["ENTRY", "WORDS", "HostToLLVM", "host_function"]

#: Of a lowered module: the words of its tables that depend on the call's sizes.
WORDS = Numbers("cuesta.words")


@register_pass("host-to-llvm")
class HostToLLVM(Pass):
    """Lowers the planned host function and merges it with the kernels, which are LLVM already.

    For a GPU the kernels are erased: the host program launches them by number. `host.check` has no effect there,
    because reading its byte would make the host wait for the GPU at every call.
    """

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            graph = host_function(module)
            layout = read_host(graph)
            kernels = {} if layout.target.gpu else _merge_kernels(module, set(layout.kernels))
            writer = EntryWriter(layout, kernels)
            text = writer.write()
            if writer.words:
                WORDS.put(module.operation, list(map(signed, writer.words)))
            for kernels_module in kernel_modules(module):  # a GPU's kernels are compiled separately
                kernels_module.operation.erase()
            graph.operation.erase()
            _append(module, text)


def host_function(module: ir.Module) -> func.FuncOp:
    """The only function at the top of a planned module. Raises CompileError unless there is exactly one."""
    graphs = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
    if len(graphs) != 1:
        raise CompileError(f"a program has one host function, found {len(graphs)}")
    return graphs[0]


def _merge_kernels(module: ir.Module, launched: set[str]) -> dict[str, Kernel]:
    """Moves the contents of `module @kernels` to the top; returns the launched kernels by name."""
    kernels: dict[str, Kernel] = {}
    for op in list(module.body.operations):
        if op.operation.name != "builtin.module":
            continue
        for inner in list(op.regions[0].blocks[0].operations):
            operation = inner.operation
            symbol = SYM_NAME.find(operation) or ""
            name = symbol.removesuffix(TILES).removesuffix(TAIL)
            if name != symbol and name in launched and operation.name == "llvm.func":
                kernels[name] = with_function(kernels.get(name), operation)
            operation.move_before(op.operation)
        op.operation.erase()
    return kernels


def _append(module: ir.Module, text: str) -> None:
    """Adds the functions and globals of `text`, except those whose name the module already has."""
    present = {SYM_NAME.find(op) for op in module.body.operations}
    parsed = ir.Module.parse(text)
    end = ir.Operation.create("builtin.module", regions=1)
    end.regions[0].blocks.append()
    module.body.append(end)
    for op in list(parsed.body.operations):
        if SYM_NAME.of(op) not in present:
            op.operation.move_before(end)
    end.erase()
