"""Defines the compiler's stages, in order. Each is a pipeline that can be run, dumped and replayed alone.

A stage is named after the level of its output. The stages for CPU and GPU have the same names up to
`kernels` and differ after it; `stages_for` has both.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.targets import Target


@dataclass(frozen=True)
class Stage:
    """One step of the lowering. `passes` are run in order on the module."""

    name: str
    passes: tuple[str, ...]

    @property
    def pipeline(self) -> str:
        """The stage as pipeline text."""
        return f"builtin.module({','.join(self.passes)})"


#: Splits reductions that are long or leave too few tiles for the threads. With symbolic sizes they stay whole.
_SPLIT = "split-reductions{longest=2048 programs=16 returned=true symbolic=false}"

#: Repeats a conversion for readers that broadcast the result to 16 times its elements and more.
_REPEAT = "repeat-conversions{small=0 broadcast=16}"

_GRAPH = (
    # 1. Views first, so that no later pattern has to look through copies and views of views.
    "fold-views",
    "complex-views",
    # 2. Equal subexpressions (masks, casts of one weight) are computed once.
    "cse",
    # Writes to parts of a tensor, one after the other: what is left of the tensor is copied once.
    "slice-parts",
    # Gradients of parts of a tensor are not padded with zeros to be added up. What parts of such a sum read is then in
    # the parts that it is made of.
    *("add-parts", "fold-views", "slice-parts"),
    # Sums of products are joined after CSE, which makes equal factors one value, and before any pass chooses between
    # library and kernel for a product.
    "join-products",
    # 3. Recognise patterns before anything is decomposed: decomposition destroys them.
    "recognise-attention",
    "recognise-layer-norm",
    "recognise-gelu",
    # 4. Library calls before decomposition, while a contraction still has the strides it was traced with.
    # What a CPU's libraries are slow at in bf16 and f16 is f32 from here on.
    "compute-in-f32",
    # Convolutions that become products have no layout to choose. Those of one dim get a second one, which layouts have.
    "multiply-groups",
    "widen-convolutions",
    "choose-layouts",
    # A convolution whose images are a matrix in their layout becomes a matrix product.
    "multiply-convolutions",
    "sum-depthwise-gradients",
    "call-libraries",
    # A product that becomes a kernel gets the dims of its readers, which leaves pairs of reshapes to fold.
    "fold-views",
    "narrow-reads",
    # 5. Decompose whole ops, so that fusion sees reductions and pointwise ops only.
    "decompose",
    # 6. argmax and argmin become two reductions, before long reductions are split.
    "find-positions",
    # Reductions that end in short contiguous runs become two, before long reductions are split.
    "reduce-outer-first",
    # 7. Split reductions that are long or have few results, while each is still an op of its own.
    _SPLIT,
    # What kernels read in parts, such as a sum of which each gate of an LSTM takes a quarter, they compute in parts.
    "slice-operands",
    # 8. Move reshapes out from between pointwise ops, then fold the views and equal ops that this leaves.
    "hoist-reshapes",
    "fold-views",
    "cse",
    # Once more: some slices reach the op that they are slices of only now.
    "slice-operands",
    # Concatenations are made in the order in which they are read.
    "permute-parts",
    # Concatenations of single elements along the last dim become selects.
    "interleave-parts",
    # 9. Move concatenations below elementwise ops, which then run before the concatenation is written.
    "sink-concatenations",
    # 10. Cut rows into parts where one kernel can then reduce along and across them. No later pass moves the reshapes.
    "cut-rows",
    # 11. A narrow row that several weights multiply is widened by each product, and each scatter writes into zeros of
    #     its own. Last: cse would merge these.
    _REPEAT,
    "own-bases",
)

_LINALG = ("cuesta-to-linalg",)

_KERNELS = (
    # 1. Kernels are separated from the host function: from now on they live in `module @kernels`.
    "form-kernels",
    # 2. Convolutions that can add in place do, while each value still has a name and memory of its own.
    "add-in-place",
    # 3. Memory is planned from the host function alone: lifetimes do not depend on what kernels do.
    "plan-memory",
)

_TILED = (
    # 1. Tile before anything is inlined: tiling reads the loop classes that are marked on single ops.
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
    # 1. Tensors become memrefs; a tile's results are written directly to the kernel's destinations.
    "builtin.module(eliminate-empty-tensors,"
    "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=infer-layout-map},"
    "canonicalize,cse,drop-equivalent-buffer-results)",
    # 2. Kernels become functions over ranges of tiles, for threads. Buffer hoisting, below, knows `for`, not `forall`.
    "outline-tiles",
    # 3. A tile's intermediates live on the stack, allocated once per thread and not once per tile.
    "builtin.module(func.func(buffer-loop-hoisting,"
    "promote-buffers-to-stack{max-alloc-size-in-bytes=1048576 max-rank-of-allocated-memref=8}),canonicalize,cse)",
    # 4. The largest go back to the heap until the rest fits the stack.
    "limit-stack",
    # 5. Free the allocations that are left: their size is symbolic, or too large for a stack.
    "free-scratch",
)

_LOOPS = (
    # 1. The copies that bufferisation left become loops too.
    "expand-copies",
    # The epilogue of a row's sums is computed for 16 rows at once, while it is an op of its own.
    "batch-rows",
    # 2. Matrix products are lowered before generic loops are made: their sums stay in registers.
    "multiply-rows",
    "multiply-panels",
    # 3. Sums with a strided destination are accumulated contiguously, while the IR still says that they are sums.
    "sum-beside",
    # 4. Transpose tiles in registers, square by square: together with the elementwise op that reads them, else alone.
    "transposed-operands",
    "transpose-tiles",
    # Long sums are added up in boxes, after the passes above, which match neighbouring ops.
    "sum-boxes",
    # Products by quantised weights, before the pass for all other sums along rows.
    "multiply-quantised",
    # Sums along rows that come from memory, while the IR still says that they are sums.
    "sum-rows",
    # 5. Affine rather than scf loops where they can be: their accesses stay readable to LLVM's vectoriser.
    "make-loops",
    # Narrow columns are written along with the rows beside them, once both are loops.
    "join-loops",
    # 6. With symbolic sizes, full tiles get loops with constant bounds, and sizes that fill vectors a second version.
    "full-tiles",
    "version-sizes",
    # 7. Inline mathematics, while the loops around it are still there to be vectorised.
    "expand-math",
    # 8. Convert bf16 to and from f32, which mathematics has just widened to, without LLVM's own instruction.
    "expand-bf16",
)

_LLVM = (
    # 1. All loops are scf loops now, the last level with loops: `short-rows` annotates them for LLVM.
    "builtin.module(canonicalize,cse,expand-strided-metadata,func.func(lower-affine))",
    "short-rows",
    # 2. Upstream's conversions to LLVM; arguments are bare pointers.
    "builtin.module(convert-scf-to-cf,convert-vector-to-llvm,func.func(convert-math-to-llvm),convert-math-to-libm,"
    "finalize-memref-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,convert-ub-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},convert-cf-to-llvm,canonicalize,cse,"
    "reconcile-unrealized-casts)",
    "loop-marks",
    # 3. Attributes that say how LLVM is to compile the functions that are left.
    "annotate-kernels",
    # 4. The host function last: it runs the kernels by name.
    "host-to-llvm",
)

#: Stage → the pass that `options={"checked": True}` adds, and the pass it is inserted before; None: at the end.
CHECKS: dict[str, tuple[str, str | None]] = {
    # After memory is planned: checks the memory that each launch may touch.
    "kernels": ("check-operands", None),
    # After the last pass that changes an access. Before the host function is lowered: it passes the checks' arguments.
    "llvm": ("check-bounds", "host-to-llvm"),
}

#: Passes that fuse a convolution's epilogue into its call.
EPILOGUES = ("fold-batch-norm", "fuse-cudnn-convolution")

#: Passes that let a GPU's kernels begin before those in front of them have ended.
OVERLAPS = ("overlap-launches",)

#: Parts of the rows that are reduced both along and down: four programs for each multiprocessor, each of which walks a
#: part's rows one after the other.
_PARTS = 528

_GPU_STEPS = {
    "compute-in-f32": (),
    "multiply-groups": ("grouped-convolutions",),
    # Once layouts are chosen: its kernels compute in channels_last.
    "multiply-convolutions": ("multiply-convolutions", "depthwise-kernels"),
    "sum-depthwise-gradients": (),
    # Images of few channels first: cuDNN has no kernel for them, whatever its epilogue.
    # In the layout that it prefers, cuDNN computes epilogues that the CPU leaves to the kernel after the convolution.
    # Folding comes first: it makes a bias, which is part of the epilogue. Then channels are padded: the folded weight
    # is written once, with its zeros, and what follows is still ops, through which the padding is carried.
    # What cuDNN computes in no epilogue joins a kernel of ours where pixels are multiplied one by one.
    # Biases that are in no epilogue become ops of ours last.
    # Products that are too small for a library become sums. Another whose result is read transposed is written so,
    # before it is chosen who computes it. To others the row that is added to them is a bias, and relu an epilogue.
    "call-libraries": (
        "stem-convolutions",
        *("fold-batch-norm", "pad-channels", "pad-groups", "fuse-cudnn-convolution"),
        *("pointwise-convolutions", "convolution-biases"),
        *("sum-small-products", "multiply-as-read", "product-biases"),
        *("call-libraries", "product-activations"),
    ),
    # The host function cannot read a range check's result without waiting for the GPU: positions are clamped instead.
    # A loss reads the target's element, before the sum that picks it is split, and its gradient's sum is that of one.
    "decompose": ("decompose{checks=false}", "read-picked", "sum-one-hot"),
    # The threads of a program combine pairs of value and position, and so read the row once.
    "find-positions": (),
    # Short runs were not measured on a GPU. What is permuted before it is reduced, or narrowed, is written once.
    "reduce-outer-first": ("narrow-views", "reduce-rows-first"),
    _SPLIT: (f"split-reductions{{cut={_PARTS}}}",),
    # Splitting leaves reshapes between a reduction and its operands: cheap ops are recomputed below the reshapes.
    # Two values in a byte, side by side in a row, are unpacked by selects, and their reshapes move up as well. One that
    # leads from pairs to groups becomes two, of which the first moves up and the second down.
    # What is repeated, as the gradient of a mean, is so after it is computed, and after reshapes that moved up to it.
    # A reshape that still parts a norm over groups from what reads it moves down. On a CPU, loops over the few channels
    # of a group take longer than another kernel over all channels.
    # What is summed as rows while others have it in parts is summed in these parts.
    "hoist-reshapes": (
        "sink-expands",
        "interleave-parts",
        "part-reshapes",
        "hoist-reshapes{repeat=true}",
        "keep-groups",
        "sink-expands",
        "part-sums",
    ),
    # Parts of one tensor in another order are read by the kernel that needs them.
    "interleave-parts": ("swapped-parts", "unmerged-parts"),
    # Where the cheap ops above a split reduction read more than they give, their result is written for other readers.
    "permute-parts": ("share-reshaped", "permute-parts"),
    "sink-concatenations": (),
    # What joins the parts is split, too.
    "cut-rows": (f"cut-rows{{parts={_PARTS}}}", "split-reductions"),
    # A second conversion costs nothing beside the memory that it saves, whoever reads it, nor an addition behind it.
    # What is computed from positions alone is computed again in each kernel that reads it.
    # What is read at positions along another dim than its fastest is put in the order in which it is read.
    _REPEAT: ("repeat-conversions{cheap=true}", "repeat-positions", "write-as-gathered"),
}

_GPU_GRAPH = tuple(step for name in _GRAPH for step in _GPU_STEPS.get(name, (name,)))

_GPU_LINALG = ("cuesta-to-linalg{checks=false}",)

_GPU_KERNELS = (
    # As on CPU, but with other limits on a kernel: it becomes a grid of programs, not loops over tiles.
    "form-kernels{target=gpu}",
    # A kernel of one program, such as the norm of a single token, becomes part of its readers.
    "repeat-rows",
    # Small launches that are independent become one: memory is planned for groups of them.
    "group-launches",
    # A call of the allocator takes as long as a launch, so only large buffers are spilled from the arena to it.
    "plan-memory{spill-from=2097152}",
)

# Block sizes are chosen while kernels are still generics, where the classes of their loops can be told apart.
_BLOCKS = ("join-classes", "choose-blocks")

# Each kernel becomes a Triton function. lowering/tt_to_binary makes machine code of it, outside MLIR.
_TT = (
    "linalg-to-tt",
    # The two values of a byte are multiplied apart.
    "sum-halves",
    # Before loads are moved: what is left of a conversion would be between them.
    "widen-float8",
    "unpack-bytes",
    # Weights of softmaxes between two products become powers of two.
    "powers-of-two",
    # Roundings between two ops, and logistic functions, become instructions of NVIDIA's GPUs.
    "use-instructions",
    # Pairs that lie side by side in memory are stored together.
    "store-pairs",
    # The few products that a kernel adds to something are rounded apart. Its sums of products then take one instruction
    # for each term.
    "round-products",
    # These go by what kernels are made of. Members of a group wait each for itself, and are joined last.
    "overlap-launches",
    "join-launches",
)

# Launches refer to a kernel by number, its place in a table: nothing else of the kernel is left here.
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
    """The stages for a target, by name, in order."""
    return _GPU_STAGES if target.gpu else STAGES
