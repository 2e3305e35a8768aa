"""The stages of the compiler, in order, each a pipeline that can be run, dumped and replayed alone.

A stage is named for the level that its output is on. The way to a GPU parts from that to a CPU at
the kernels; `stages_for` has both.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.targets import Target


@dataclass(frozen=True)
class Stage:
    """One step of the way down. `passes` are run in order on the module."""

    name: str
    passes: tuple[str, ...]

    @property
    def pipeline(self) -> str:
        """The stage as pipeline text."""
        return f"builtin.module({','.join(self.passes)})"


#: Parts of a reduction that leaves too few tiles to share out, or is long; a program for all sizes keeps it whole.
_SPLIT = "split-reductions{longest=2048 programs=16 returned=true symbolic=false}"

_GRAPH = (
    # 1. Views first: what copies and views of views hide, no later pattern has to look through.
    "fold-views",
    "complex-views",
    # 2. Equal subexpressions (masks, casts of one weight) are computed once.
    "cse",
    # Products that are added up are joined after CSE, which makes equal factors one value, and before any pass decides
    # who computes a product.
    "join-products",
    # 3. Recognise before anything comes apart: an attention found late is not found.
    "recognise-attention",
    "recognise-layer-norm",
    "recognise-gelu",
    # 4. Library calls before decomposition, while a contraction still has the strides it was traced with.
    "choose-layouts",
    # What is a matrix in its layout is a product like any other.
    "multiply-convolutions",
    "sum-depthwise-gradients",
    "call-libraries",
    # Products that are kernels have the rows of what follows: reshapes there and back.
    "fold-views",
    # 5. Whole ops apart, so that fusion sees reductions and pointwise ops only.
    "decompose",
    # 6. Positions as reductions of their own, before long ones are cut.
    "find-positions",
    # Reductions over short runs of memory apart, before long ones are cut.
    "reduce-outer-first",
    # 7. Sums down few columns in parts, while they are ops of their own.
    _SPLIT,
    # 8. Reshapes out from between pointwise ops; then once more what that left behind.
    "hoist-reshapes",
    "fold-views",
    "cse",
    # Stacks along the last dim are no concatenations any more.
    "interleave-parts",
    # 9. Concatenations behind what is done to each of their elements, which is then done before they are written.
    "sink-concatenations",
    # 10. Rows in parts where one kernel can reduce along them and across them, once nothing moves reshapes any more.
    "cut-rows",
)

_LINALG = ("cuesta-to-linalg",)

_KERNELS = (
    # 1. Kernels and the host function part ways here: from now on kernels live in `module @kernels`.
    "form-kernels",
    # 2. What is written over what, while each value still has a name and a memory of its own.
    "add-in-place",
    # 3. Memory while the host function is all there is to see: lifetimes do not depend on what kernels do.
    "plan-memory",
)

_TILED = (
    # 1. Tiles before anything is inlined: the classes that tiling goes by are marked on single ops.
    "tile-scatters",
    "tile-attention",
    "tile-kernels",
    # 2. Pointwise chains inside a tile become one loop body. No cse after it: equal initial values
    #    must stay two, each in its own buffer.
    "builtin.module(func.func(linalg-fuse-elementwise-ops,canonicalize))",
    # 3. After folding, two results may be one value: bufferisation needs to know which is the copy.
    "chain-destinations",
)

_BUFFERS = (
    # 1. Tensors become memrefs; a tile's results are written where the kernel's destinations lie.
    "builtin.module(eliminate-empty-tensors,"
    "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=infer-layout-map},"
    "canonicalize,cse,drop-equivalent-buffer-results)",
    # 2. Ranges of tiles for threads; it must come before buffers are hoisted, which know `for` but not `forall`.
    "outline-tiles",
    # 3. A tile's intermediates live on the stack, once a thread and not once a tile.
    "builtin.module(func.func(buffer-loop-hoisting,"
    "promote-buffers-to-stack{max-alloc-size-in-bytes=1048576 max-rank-of-allocated-memref=8}),canonicalize,cse)",
    # 4. All of them together fit there.
    "limit-stack",
    # 5. What is left is of a size that only the call tells, or too large for a stack.
    "free-scratch",
)

_LOOPS = (
    # 1. What bufferisation left as copies is a loop too.
    "expand-copies",
    # 2. Matrix products before they are loops like any other: their sums stay in registers.
    "multiply-panels",
    # 3. Sums that vectors would write apart, while it is told what is summed.
    "sum-beside",
    # 4. Tiles that are read across, by squares in registers: what is computed of them there, and others for themselves.
    "transposed-operands",
    "transpose-tiles",
    # Long sums, once nobody looks for what stands beside them.
    "sum-boxes",
    # 5. Affine rather than scf loops where they can be: their accesses stay readable to LLVM's vectoriser.
    "make-loops",
    # Columns beside rows, once both are loops.
    "join-loops",
    # 6. Where sizes come with the call: whole tiles have loops of their own, other sizes that fill vectors a version.
    "full-tiles",
    "version-sizes",
    # 7. Inline mathematics, while the loops around it are still there to be vectorised.
    "expand-math",
    # 8. bf16 to and from f32, which mathematics has just widened to, without LLVM's own instruction.
    "expand-bf16",
)

_LLVM = (
    # 1. Loops are all of one kind, and still loops: what LLVM is told of them is told here.
    "builtin.module(canonicalize,cse,expand-strided-metadata,func.func(lower-affine))",
    "short-rows",
    # 2. Upstream's way down, plain pointers as arguments.
    "builtin.module(convert-scf-to-cf,convert-vector-to-llvm,func.func(convert-math-to-llvm),convert-math-to-libm,"
    "finalize-memref-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},convert-cf-to-llvm,canonicalize,cse,"
    "reconcile-unrealized-casts)",
    "loop-marks",
    # 3. How LLVM is to compile the functions that are left.
    "annotate-kernels",
    # 4. The host function last: it runs the kernels by name.
    "host-to-llvm",
)

#: Stage → the pass that `options={"checked": True}` adds, and the pass that it stands before; None: the last.
CHECKS: dict[str, tuple[str, str | None]] = {
    # Once memory is planned: what each launch may touch.
    "kernels": ("check-operands", None),
    # Once nothing but LLVM changes an access any more; then the host function, which passes what the checks take.
    "llvm": ("check-bounds", "host-to-llvm"),
}

#: Passes that take what follows a convolution into its call.
EPILOGUES = ("fold-batch-norm", "fuse-cudnn-convolution")

_GPU_STEPS = {
    "multiply-convolutions": (),
    "sum-depthwise-gradients": (),
    # cuDNN takes into a convolution what CPU leaves to the kernel behind it, where the layout is its own. Folding
    # first: what is folded is a bias.
    "call-libraries": (*EPILOGUES, "call-libraries"),
    # A range check would make every call wait for it: positions are clamped, as the host function cannot ask.
    "decompose": ("decompose{checks=false}",),
    # A program's threads join pairs of value and position, and read the row once.
    "find-positions": (),
    # Not measured there.
    "reduce-outer-first": (),
    _SPLIT: ("split-reductions",),
    # Splitting leaves reshapes between a reduction and what it reduces: what is cheap is computed again behind them.
    "hoist-reshapes": ("hoist-reshapes{repeat=true}",),
    # Not measured there.
    "interleave-parts": (),
    "sink-concatenations": (),
    # There reductions are split wherever they are long.
    "cut-rows": (),
}

_GPU_GRAPH = (
    *(step for name in _GRAPH for step in _GPU_STEPS.get(name, (name,))),
    # Last, as cse would make one conversion of them again.
    "repeat-conversions",
)

_GPU_LINALG = ("cuesta-to-linalg{checks=false}",)

_GPU_KERNELS = (
    # As on CPU, but for what a kernel may hold: it becomes a grid of programs, not loops over tiles.
    "form-kernels{target=gpu}",
    # The allocator takes as long as a launch, so it is asked for what is large alone.
    "plan-memory{spill-from=2097152}",
)

# Block sizes while kernels are still generics, where the classes of their loops can be told apart.
_BLOCKS = ("choose-blocks",)

# Each kernel a function of Triton's; machine code for them is made outside MLIR, by lowering/tt_to_binary.
_TT = ("linalg-to-tt",)

# Launches refer to kernels by their number: nothing of a kernel but its place in a table is left here.
_GPU_LLVM = ("host-to-llvm",)

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("graph", _GRAPH),
        Stage("linalg", _LINALG),
        Stage("kernels", _KERNELS),
        Stage("tiled", _TILED),
        Stage("buffers", _BUFFERS),
        Stage("loops", _LOOPS),
        Stage("llvm", _LLVM),
    )
}

_GPU_STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage("graph", _GPU_GRAPH),
        Stage("linalg", _GPU_LINALG),
        Stage("kernels", _GPU_KERNELS),
        Stage("blocks", _BLOCKS),
        Stage("tt", _TT),
        Stage("llvm", _GPU_LLVM),
    )
}


def stages_for(target: Target) -> dict[str, Stage]:
    """The stages of the way to a target, by name, in order."""
    return _GPU_STAGES if target.gpu else STAGES
