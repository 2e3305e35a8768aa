"""Defines the stages of FX graphs, in order: what is rewritten between Dynamo and the importer, and why then.

`cuesta-opt --list-stages` prints them before MLIR's stages, and dumps show the graphs after each.
"""

from __future__ import annotations

from torch.fx import GraphModule

from cuesta.frontend.attention.keep_whole import keep_attention_whole
from cuesta.frontend.attention.spelled_out_flex_attention import spell_out_flex_attention
from cuesta.frontend.attention.spelled_out_masks import spell_out_masks
from cuesta.frontend.capture.effects import unwrap_effects
from cuesta.frontend.capture.streams import unwrap_waits
from cuesta.frontend.fx_passes.byte_images import keep_byte_images_whole
from cuesta.frontend.fx_passes.common_subexpressions import merge_equal_nodes
from cuesta.frontend.fx_passes.computed_parts import read_parts
from cuesta.frontend.fx_passes.constants.constant_positions import hold_positions
from cuesta.frontend.fx_passes.constants.decided_conditions import decide_conditions
from cuesta.frontend.fx_passes.constants.held_constants import hold_constants
from cuesta.frontend.fx_passes.constants.moved_constants import move_constants
from cuesta.frontend.fx_passes.forced_aten_calls import mark_calls
from cuesta.frontend.fx_passes.fx_pipeline import FxPass, FxStage, TrainingStep
from cuesta.frontend.fx_passes.logsumexp_types import type_logsumexps
from cuesta.frontend.fx_passes.old_values import keep_old_values
from cuesta.frontend.fx_passes.ragged_products import pad_ragged_products
from cuesta.frontend.fx_passes.recomputed_chains import recompute_chains
from cuesta.frontend.fx_passes.recomputed_values import read_undetached, save_compared, save_narrow
from cuesta.frontend.fx_passes.saved_concatenations import save_once
from cuesta.frontend.fx_passes.saved_layouts import save_channels_last
from cuesta.frontend.fx_passes.saved_positions import save_offsets
from cuesta.frontend.fx_passes.saved_turned import save_turned
from cuesta.frontend.fx_passes.saved_views import save_views_once
from cuesta.frontend.fx_passes.softmaxes.narrow_softmaxes import read_narrow_softmaxes
from cuesta.frontend.fx_passes.softmaxes.recomputed_softmaxes import recompute_softmaxes
from cuesta.frontend.fx_passes.softmaxes.row_normalisers import save_normalisers
from cuesta.frontend.fx_passes.strided_views import permute_strided_views
from cuesta.frontend.fx_passes.summed_positions.gathered_gradients import gather_gradients
from cuesta.frontend.fx_passes.summed_positions.overlapping_windows import add_windows
from cuesta.frontend.fx_passes.summed_positions.summed_diagonals import sum_diagonals
from cuesta.frontend.fx_passes.summed_positions.summed_windows import sum_windows
from cuesta.frontend.fx_passes.tied_tables import add_rows_to_tables
from cuesta.options import Options
from cuesta.torch_private.configs import merges_equal_nodes


def _in_any_order(options: Options) -> bool:
    """Whether sums may be reordered and saved tensors have another layout than eager's."""
    return not options.bitwise_eager


def _eliminate_dead_code(gm: GraphModule, _: Options) -> None:
    """Removes calls whose results nobody reads."""
    gm.graph.eliminate_dead_code()


#: Replaces calls that AOTAutograd would decompose by one op each, if one kernel computes the whole call.
DYNAMO: FxStage[GraphModule] = FxStage(
    "dynamo",
    "Dynamo's graph",
    (
        FxPass("keep-byte-images-whole", lambda gm, _: keep_byte_images_whole(gm)),
        # Not with `bitwise_eager`: attention then stays the call whose kernel eager's dispatcher chooses.
        FxPass("keep-attention-whole", lambda gm, options: keep_attention_whole(gm, options.target), _in_any_order),
    ),
)

#: Prepares the graph for torch's partitioner, which decides what is saved for the backward graph and what recomputed.
JOINT: FxStage[GraphModule] = FxStage(
    "joint",
    "forward and backward in one graph, before AOTAutograd splits it",
    (
        FxPass("eliminate-dead-code", _eliminate_dead_code),
        # Before the passes that change layouts: they leave graphs with views by strides alone.
        FxPass("permute-strided-views", lambda gm, _: permute_strided_views(gm)),
        FxPass("decide-conditions", lambda gm, _: decide_conditions(gm)),
        # Without it, the partitioner could save one of two equal values and recompute the other.
        FxPass("merge-equal-nodes", lambda gm, _: merge_equal_nodes(gm.graph), lambda _: merges_equal_nodes()),
        # Before gradients of single corners are gathered: it reads all corners of an image at once.
        FxPass("sum-windows", lambda gm, options: sum_windows(gm, options.target), _in_any_order),
        FxPass("gather-gradients", lambda gm, options: gather_gradients(gm, options.target), _in_any_order),
        FxPass("sum-diagonals", lambda gm, options: sum_diagonals(gm, options.target), _in_any_order),
        FxPass("add-windows", lambda gm, _: add_windows(gm), _in_any_order),
        # Before the split: the backward graph's argument has the type of what is saved here.
        FxPass("type-logsumexps", lambda gm, _: type_logsumexps(gm)),
        # Before the split: both graphs hold the same numbers.
        FxPass("hold-positions", lambda gm, _: hold_positions(gm)),
        # Before the split: no value on the CPU is saved.
        FxPass("move-constants", lambda gm, _: move_constants(gm)),
        FxPass("save-compared", lambda gm, _: save_compared(gm.graph)),
        FxPass("read-undetached", lambda gm, options: read_undetached(gm.graph, options.target)),
        # After it: gradients read the result itself, not what was detached.
        FxPass("save-normalisers", lambda gm, _: save_normalisers(gm), _in_any_order),
        FxPass("read-narrow-softmaxes", lambda gm, options: read_narrow_softmaxes(gm, options.target), _in_any_order),
        # After it: where no narrow result is kept, scores are.
        FxPass("recompute-softmaxes", lambda gm, options: recompute_softmaxes(gm, options.target), _in_any_order),
        # Before the split: the forward graph saves padded results.
        FxPass("pad-ragged-products", lambda gm, options: pad_ragged_products(gm, options.target), _in_any_order),
    ),
)

#: Changes which values the forward graph saves for the backward graph, and their layouts.
SAVED: FxStage[TrainingStep] = FxStage(
    "saved",
    "the forward and the backward graph, after AOTAutograd's split",
    (
        # Before any pass that copies saved values: a part of a concatenation is found by its slice.
        FxPass("save-once", lambda step, _: save_once(step)),
        FxPass("read-parts", lambda step, _: read_parts(step)),
        FxPass("save-narrow", lambda step, _: save_narrow(step)),
        # After it: what was widened is read narrow. Before old values are kept: it may save an argument. Before layouts
        # are chosen for what is saved.
        FxPass("recompute-chains", lambda step, options: recompute_chains(step, options.target), _in_any_order),
        FxPass("keep-old-values", lambda step, _: keep_old_values(step)),
        FxPass("save-offsets", lambda step, options: save_offsets(step, options.target)),
        FxPass("save-channels-last", lambda step, _: save_channels_last(step), _in_any_order),
        FxPass("save-turned", lambda step, options: save_turned(step, options.target), _in_any_order),
        FxPass("add-rows-to-tables", lambda step, _: add_rows_to_tables(step.backward), _in_any_order),
        # Last: the other passes change which values are saved, and which of these are views of one tensor.
        FxPass("save-views-once", lambda step, _: save_views_once(step)),
    ),
)

#: The functional graph of ATen ops that the importer reads.
ATEN: FxStage[GraphModule] = FxStage(
    "aten",
    "one functional graph of ATen ops, before import",
    (
        # Before the graph is cut into pieces: it would be cut at each wrapped check or wait.
        FxPass("unwrap-waits", lambda gm, _: unwrap_waits(gm)),
        FxPass("unwrap-effects", lambda gm, _: unwrap_effects(gm)),
        # Graphs without gradients, or with gradients of their own.
        FxPass("permute-known-strided-views", lambda gm, _: permute_strided_views(gm)),
        # Graphs without gradients. Before attention, which finds out what its masks hide.
        FxPass("decide-known-conditions", lambda gm, _: decide_conditions(gm)),
        # Not with `bitwise_eager`: torch's implementation then runs between programs.
        FxPass("spell-out-flex-attention", spell_out_flex_attention, _in_any_order),
        FxPass("spell-out-masks", spell_out_masks, _in_any_order),
        # Gradients of flex_attention, which are spelled out only now.
        FxPass("sum-spelled-diagonals", lambda gm, options: sum_diagonals(gm, options.target), _in_any_order),
        FxPass("mark-calls", mark_calls),
        # Graphs without gradients. Those of a training step are right already.
        FxPass("type-known-logsumexps", lambda gm, _: type_logsumexps(gm)),
        # Graphs without gradients, and those whose sizes are known only now.
        FxPass("hold-known-positions", lambda gm, _: hold_positions(gm)),
        FxPass("move-known-constants", lambda gm, _: move_constants(gm)),
        # Last of the passes for constants: the others look at how masks and positions are computed.
        FxPass("hold-constants", lambda gm, _: hold_constants(gm), _in_any_order),
        # Graphs without gradients. Products of a training step are padded already.
        FxPass("pad-ragged", lambda gm, options: pad_ragged_products(gm, options.target), _in_any_order),
    ),
)

#: All FX stages, in the order in which a graph meets them.
FX_STAGES: tuple[FxStage[GraphModule] | FxStage[TrainingStep], ...] = (DYNAMO, JOINT, SAVED, ATEN)
