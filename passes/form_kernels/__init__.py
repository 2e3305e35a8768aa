"""Forms kernels: generics that are fused become one function, and a host function launches them and makes the calls.

func @graph(%x: tensor<4x8xf32>) {          module @kernels {
  %0 = linalg.generic ins(%x) {exp}           func @exp_add(%x, %out) { linalg.generic … }
  %1 = linalg.generic ins(%0) {addf}   →    }
  %2 = aten.call(%1) {aten.sort}            func @graph(%x: memref<4x8xf32>) {
                                              %b = host.alloc(); host.launch(%x, %b) {@kernels::@exp_add}
                                              %2 = host.aten(%b) {aten.sort} …
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cuesta._mlir import ir
from cuesta.passes.form_kernels.fusion.limits import limits_of
from cuesta.passes.form_kernels.host import build_host
from cuesta.passes.graph.default_strides import add_strides
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("form-kernels")
@dataclass(frozen=True)
class FormKernels(Pass):
    """Groups generics into kernels and writes the host function that launches them."""

    fuse: bool = True
    #: Whether readers of a matrix product may be in the product's kernel.
    epilogues: bool = True
    #: The machine whose limits kernels keep to: "cpu" or "gpu".
    target: str = "cpu"
    #: Whether the host function may deviate from the program's order to hold less memory.
    lower_peak: bool = False

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            limits = replace(limits_of(self.target), epilogues=self.epilogues)
            graphs = list(functions(module))
            with ir.InsertionPoint.at_block_begin(module.body):
                kernels = ir.Operation.create(
                    "builtin.module", regions=1, attributes={"sym_name": ir.StringAttr.get("kernels")}
                )
            block = kernels.regions[0].blocks.append()
            for graph in graphs:
                add_strides(graph)
                build_host(graph, block, self.fuse, limits, self.lower_peak)
