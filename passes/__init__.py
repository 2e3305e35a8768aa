"""Holds the passes that stay on their level, one a file, and the pipelines of these passes and the lowerings."""

from __future__ import annotations

import functools
import importlib

#: Modules that register passes, except those of the next two lists. Importing a module registers its passes.
_PASS_MODULES = (
    "cuesta.passes.graph.set_target",
    "cuesta.passes.graph.complex_views",
    "cuesta.passes.graph.fold_views",
    "cuesta.passes.graph.join_products",
    "cuesta.passes.graph.recognise_attention",
    "cuesta.passes.graph.recognise_gelu",
    "cuesta.passes.graph.recognise_layer_norm",
    "cuesta.passes.graph.hoist_reshapes",
    "cuesta.passes.tiles.limit_stack",
    "cuesta.passes.graph.decompose",
    "cuesta.passes.libraries.choose_layouts",
    "cuesta.passes.libraries.multiply_convolutions",
    "cuesta.passes.libraries.sum_depthwise_gradients",
    "cuesta.passes.libraries.call_libraries",
    "cuesta.lowering.cuesta_to_linalg",
    "cuesta.passes.graph.find_positions",
    "cuesta.passes.graph.reduce_outer_first",
    "cuesta.passes.graph.split_reductions",
    "cuesta.passes.graph.cut_rows",
    "cuesta.passes.graph.interleave_parts",
    "cuesta.passes.graph.sink_concatenations",
    "cuesta.passes.form_kernels",
    "cuesta.passes.host.add_in_place",
    "cuesta.passes.plan_memory",
    "cuesta.passes.tiles.tile_kernels",
    "cuesta.passes.tiles.tile_scatters",
    "cuesta.lowering.attention_to_loops",
    "cuesta.passes.tiles.chain_destinations",
    "cuesta.passes.tiles.outline_tiles",
    "cuesta.passes.tiles.free_scratch",
    "cuesta.lowering.linalg_to_loops.expand_copies",
    "cuesta.lowering.linalg_to_loops.sum_beside",
    "cuesta.lowering.linalg_to_loops.sum_boxes",
    "cuesta.lowering.linalg_to_loops.multiply_panels",
    "cuesta.lowering.linalg_to_loops.transposed_operands",
    "cuesta.lowering.linalg_to_loops.transpose_tiles",
    "cuesta.lowering.linalg_to_loops.make_loops",
    "cuesta.lowering.linalg_to_loops.join_loops",
    "cuesta.lowering.linalg_to_loops.full_tiles",
    "cuesta.lowering.linalg_to_loops.version_sizes",
    "cuesta.lowering.loops_to_llvm.expand_math",
    "cuesta.lowering.loops_to_llvm.expand_bf16",
    "cuesta.lowering.loops_to_llvm.short_rows",
    "cuesta.lowering.loops_to_llvm.loop_marks",
    "cuesta.lowering.loops_to_llvm.annotate_kernels",
    "cuesta.lowering.host_to_llvm",
)

#: Modules of the passes that no CPU stage has.
_GPU_MODULES = (
    "cuesta.passes.graph.fold_batch_norm",
    "cuesta.passes.libraries.fuse_cudnn_convolution",
    "cuesta.passes.graph.repeat_conversions",
    "cuesta.passes.gpu.choose_blocks",
    "cuesta.passes.gpu.halve_blocks",
    "cuesta.lowering.linalg_to_tt",
)

#: Modules of the passes that stages have with `options={"checked": True}` only.
_CHECKING_MODULES = ("cuesta.passes.host.check_operands", "cuesta.lowering.loops_to_llvm.check_bounds")


@functools.cache
def load_all() -> None:
    """Registers every pass of cuesta."""
    load_for_cpu()
    for name in (*_GPU_MODULES, *_CHECKING_MODULES):
        importlib.import_module(name)


@functools.cache
def load_for_cpu() -> None:
    """Registers the passes of the CPU stages."""
    for name in _PASS_MODULES:
        importlib.import_module(name)
