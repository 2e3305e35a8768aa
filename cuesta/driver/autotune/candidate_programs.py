"""Builds the programs that are timed for a choice: one product, or one kernel, with inputs like those of the graph.

func.func @graph(%arg0: tensor<64x1x64xbf16>, …) {          func.func @graph(%arg0: memref<256x768xf32>, …) {
  %0 = "cuesta.mm"(…) {route = "rows"}                        "host.launch"(…) {kernel = @kernels::@sum}
  return %0                                                   return
}                                                           }
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuesta._mlir import func, ir
from cuesta.dialects import walk
from cuesta.dialects.cuesta.contraction import AnyProduct
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.graph_function import STRIDES, set_argument_attributes, set_result_attributes
from cuesta.dialects.host import Launch
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.top_module import DEVICE, TARGET
from cuesta.dialects.types import row_major, shape_of, torch_dtype
from cuesta.errors import CompileError
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.libraries.products.cluster import PRODUCTS, cluster, program_text
from cuesta.passes.tiles.tile_sizes import kernel_text, mark_tile
from cuesta.runtime.executable import Executable
from cuesta.runtime.schema.tensors import plain
from cuesta.sizes import Number

_SEED = 0


def product(op: ir.Operation, route: str) -> tuple[ir.Module, str]:
    """A program that computes `op` (a cuesta.mm or cuesta.addmm) by `route`, and the program's level."""
    module = ir.Module.create()
    inputs, outputs = [v.type for v in op.operands], [r.type for r in op.results]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("graph", (inputs, outputs))
    entry = function.add_entry_block()
    with ir.InsertionPoint(entry):
        attributes = {**dict(op.attributes.items()), **AnyProduct.route.entry(route)}
        copy = ir.Operation.create(op.name, results=outputs, operands=list(entry.arguments), attributes=attributes)
        func.ReturnOp(list(copy.results))
    set_argument_attributes(function, _strides(OPERAND_STRIDES.find(op), op.operands))
    set_result_attributes(function, _strides(RESULT_STRIDES.find(op), op.results))
    return module, "import"


def gemm(op: ir.Operation, route: str) -> tuple[ir.Module, str]:
    """A program of the product `op` and the ops that a kernel would fuse with it, whose products all take `route`; its
    level."""
    parent = op.operation.parent.parent.operation
    module = ir.Module.parse(program_text(cluster(op), MemoryOrder()))
    for field in (TARGET, DEVICE):
        if (value := field.find(parent)) is not None:
            field.put(module.operation, value)
    for copy in walk(module.operation):
        if copy.name in PRODUCTS:
            AnyProduct.route.put(copy, route)
    return module, "import"


def _strides(traced: list[list[Number]] | None, values: Sequence[ir.Value]) -> list[dict[str, ir.Attribute]]:
    """For each value, the attribute with its strides: those that were traced, or row-major ones if none were."""
    known = traced if traced is not None and len(traced) == len(values) else [row_major(shape_of(v)) for v in values]
    return [STRIDES.entry(strides) for strides in known]


def kernel(function: func.FuncOp, tile: str) -> tuple[ir.Module, str]:
    """A program that launches a kernel with this tile, and the program's level."""
    launch = _launch_of(function)
    names = [f"%arg{i}" for i in range(len(launch.operands))]
    types = [str(v.type) for v in launch.operands]
    signature = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    # Results are passed as arguments: allocating and freeing them takes the same time for all candidates.
    module = ir.Module.parse(
        f"""module {{
          module @kernels {{ {kernel_text(function)} }}
          func.func @graph({signature}) attributes {{cuesta.memory = {{arena = 0, inputs = 0, kept = 0, peak = 0}}}} {{
            "host.launch"({", ".join(names)}) {{kernel = @kernels::@kernel, outputs = {Launch.outputs.of(launch)}}}
              : ({", ".join(types)}) -> ()
            return
          }}
        }}"""
    )
    for nested in kernel_modules(module):
        for copy in functions(nested):
            mark_tile(copy, tile)
    return module, "kernels"


def _launch_of(function: func.FuncOp) -> ir.Operation:
    """The first launch of a kernel."""
    name = function.name.value
    for op in walk(function.operation.parent.parent.operation):
        if Launch.matches(op) and Launch.kernel.of(op) == name:
            return op
    raise CompileError(f"nothing launches the kernel {name}")


def inputs_of(program: Executable) -> list[torch.Tensor]:
    """The tensors to call a program on. They are the same each time. Integers are zeros, because 0 is a valid index
    anywhere."""
    device = torch.device(program.metadata["device"])
    generator = torch.Generator(device).manual_seed(_SEED)  # leaves the user's generator alone
    tensors = []
    for argument in program.metadata["arguments"]:
        dtype = torch_dtype(argument["dtype"])
        x = torch.empty_strided(plain(argument["sizes"]), plain(argument["strides"]), dtype=dtype, device=device)
        tensors.append(x.normal_(generator=generator) if dtype.is_floating_point else x.zero_())
    return tensors
