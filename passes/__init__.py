"""Passes that stay on their level, one a file, and the pipelines made of them and of the lowerings."""

from __future__ import annotations

import functools
import importlib

#: Every module that registers a pass, but those of the next list; importing it is what registers.
_PASS_MODULES = (
    "cuesta.passes.set_target",
    "cuesta.passes.complex_views",
    "cuesta.passes.fold_views",
    "cuesta.passes.join_products",
    "cuesta.passes.recognise_attention",
    "cuesta.passes.recognise_gelu",
    "cuesta.passes.recognise_layer_norm",
    "cuesta.passes.hoist_reshapes",
    "cuesta.passes.limit_stack",
    "cuesta.passes.decompose",
    "cuesta.passes.choose_layouts",
    "cuesta.passes.multiply_convolutions",
    "cuesta.passes.sum_depthwise_gradients",
    "cuesta.passes.call_libraries",
    "cuesta.lowering.cuesta_to_linalg",
    "cuesta.passes.find_positions",
    "cuesta.passes.reduce_outer_first",
    "cuesta.passes.split_reductions",
    "cuesta.passes.cut_rows",
    "cuesta.passes.interleave_parts",
    "cuesta.passes.sink_concatenations",
    "cuesta.passes.form_kernels",
    "cuesta.passes.add_in_place",
    "cuesta.passes.plan_memory",
    "cuesta.passes.tile_kernels",
    "cuesta.passes.tile_scatters",
    "cuesta.lowering.attention_to_loops",
    "cuesta.passes.chain_destinations",
    "cuesta.passes.outline_tiles",
    "cuesta.passes.free_scratch",
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

#: Those of passes that no stage on the way to a CPU has.
_GPU_MODULES = (
    "cuesta.passes.fold_batch_norm",
    "cuesta.passes.fuse_cudnn_convolution",
    "cuesta.passes.repeat_conversions",
    "cuesta.passes.choose_blocks",
    "cuesta.passes.halve_blocks",
    "cuesta.lowering.linalg_to_tt",
)

#: Those that stages have with `options={"checked": True}` alone.
_CHECKING_MODULES = ("cuesta.passes.check_operands", "cuesta.lowering.loops_to_llvm.check_bounds")


@functools.cache
def load_all() -> None:
    """Registers every pass of cuesta."""
    load_for_cpu()
    for name in (*_GPU_MODULES, *_CHECKING_MODULES):
        importlib.import_module(name)


@functools.cache
def load_for_cpu() -> None:
    """Registers the passes that the stages of a graph for a CPU have."""
    for name in _PASS_MODULES:
        importlib.import_module(name)
