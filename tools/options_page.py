"""Writes docs/options.md from cuesta/options.py: `python -m cuesta.tools.options_page > docs/options.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuesta.options import MODE_EFFECTS, Environment, Options, list_mode_options, options_of

_HEAD = """# Modes and options

Written by `python -m cuesta.tools.options_page` from `cuesta/options.py`; a test holds it to that.

```python
torch.compile(model, backend="cuesta", mode="reduce-overhead")
torch.compile(model, backend="cuesta", options={"fusion": False, "dump": "ir"})
```

`cuesta.list_options()` and `cuesta.list_mode_options()` answer as torch._inductor's do. A mode, an option or a value
that does not exist raises an error that names it, what is near it and what is valid. An option goes before its mode's.
"""

_TAIL = """
## `gemm` and `attention` on a CPU
Whether MKL or a kernel of ours multiplies f32 faster depends on the machine: from 256 rows on a kernel took 0.9 to 1.1
of MKL's time on an Intel Xeon, and 0.4 to 0.9 of it on AMD EPYCs; attention, which ATen computes with MKL, 0.3 to 0.7
of ATen's time there. So with `auto`, the first graph with products of a kind has one of them timed both ways, on random
tensors, in turns, the shortest times counting, in 0.15 s or so each (the gradients of attention 0.3 s):

| kind | timed | such as |
| --- | --- | --- |
| `across` | 256x768 by 768x768, the right factor [N, K] in memory | a linear layer |
| `along` | the same, [K, N] in memory | the gradient of its input, GPT-2's layers |
| `turned` | 768x256 by 256x768, the left factor [K, M] in memory | the gradient of a weight |
| `forward`, of attention | 12 heads of 64, 128 queries and keys | `scaled_dot_product_attention` |
| `backward`, of attention | the same | its gradients |

A kernel that saves a twentieth then computes products of that kind, of all sizes that it has a form for, in every graph
and process: the answer is kept in the cache of compiled graphs for this CPU, number of threads and versions, and goes
with `torch.compiler.save_cache_artifacts`. What was decided is part of a program's key. `cuesta.report()` says it, with
the times (`products` in `as_dict()`).

The library and a kernel differ in a result's last bits. Each repeats its own, and a decision that is kept does not
change; a cache that is emptied, and no cache at all, have it measured again, by process. Where the clock must not
decide take `"kernel"` or `"library"`, or `torch.use_deterministic_algorithms(True)`, with which nothing is measured.

## `max_autotune`
Some choices are made by a rule of thumb. With this option they are made by timing, for graphs whose sizes are numbers:

| choice | candidates, the rule of thumb's first |
| --- | --- |
| CPU, `product`: of floats, with a side of at most 16 | `library`; `columns`, `rows`: kernels, with what is around |
| CPU, `tile`: a kernel's tiles | `32x128`, for example; up to nine others |
| CPU, `gemm`: another one of f32, with what follows it | `library`; `panels 256x192x384 by 8x48` |
| CUDA, `gemm`: a product with what follows it | `library`; `tensor cores 128x256x64/8/4` and up to six others |

Each candidate is compiled by itself and called on random tensors of the same sizes and strides (the generator of your
program is left alone). On CPU: in turns, about 20 ms each, and the shortest time counts; another than the first is
taken where it saves a tenth, in `gemm` 3 %. On a GPU: in turns, with a cold cache, and the median counts; another is
taken where it saves 3 %. All measuring for a graph ends after 60 s; what is asked later goes by the rule of thumb.

Answers are kept in the cache of compiled graphs, for this CPU or GPU, this number of threads, these versions: later
graphs and processes do not measure again. Without the cache, each compile measures. `cuesta.report()` lists what was
taken and the times (`choices` in `as_dict()`), the logger `cuesta` each choice as it is made. Measure on a machine that
does nothing else: beside other work, times say little.

What it gave on one thread of a Xeon (Sapphire Rapids), compiled without and with it, both timed in turns:

| graph | times as fast |
| --- | --- |
| `(a @ b).relu()`, f32, 4096 products of [4, 4] and [4, 4] | 14.9 |
| `(a @ b).sigmoid()`, bf16, 4096 of [1, 64] and [64, 1] | 13.9 |
| the same in f32 | 1.5 |
| `softmax(linear(x))`, bf16, [4096, 768] to 2 classes | 2.2 |
| a transposed copy of [8, 512, 768], column sums of [256, 4096] | 1: the rule of thumb was right |

A kernel of ours sums in order, a library in blocks: results differ in their last bits, as they do between libraries.

## Random numbers
Random ops are called in ATen, in eager's order, so that after `torch.manual_seed` a compiled model draws the numbers
that eager draws, bit for bit, and leaves the generator where eager leaves it: dropout, `rand`, `randn`, `randint`,
`bernoulli`, `normal`, `multinomial`, `randperm` and the in-place forms. Inductor does so with `fallback_random` only.
What is computed from the numbers is rounded as compiled code rounds: a dropout of bf16 may differ in its last bit, but
not in what it drops. On a GPU dropout follows the seed too, but draws other numbers than eager's fused kernel, so that
the rest of it is compiled: what it drops differs. With `fallback_random` that kernel is called, and drops the same.

## `freezing`
```python
model = torch.compile(model.eval(), backend="cuesta", options={"freezing": True})
with torch.no_grad():
    model(x)  # packs the weights, and keeps them so
```

A product of f32 by few rows waits for its weight. With this option weights of graphs without gradients that 17 to 128
rows are multiplied by are copied into panels of 48 or 64 columns when they are first met, in which a kernel reads them
in order. On one thread of a Xeon (Emerald Rapids), weights in no cache, MKL took 1.7 times as long with 24 rows, 1.3
with 64, 1.2 with 128; without the option a kernel of ours that packs in every call has 1.3, 1.2 and 1.1 of that. GPT-2
with 128 tokens took 0.86 of Inductor's time, and without it 0.96. Products of more rows that MKL computes have MKL pack
their weight: BERT-base with 2x128 tokens took 0.89 of the time of Inductor's own `freezing`, and 0.79 of its time
without the option (two threads of a Xeon, least of 15 calls beside other work).

- Packed are parameters and buffers of at least 65536 elements, in graphs whose sizes are numbers: in panels where their
  columns are a multiple of 48 or 64, on a CPU with AVX-512; by MKL where 65 rows or more are multiplied by them, once
  for each number of rows. `cuesta.report()` says how many, or why none.
- Weights of convolutions of f32, with symbolic sizes too, are packed by oneDNN, with a batch norm in evaluation folded
  into them, and its call takes in a sum and an activation behind them. Those with a window of one element are, of 65
  rows or more, where the library would compute the product, or where there are 3 times as many channels behind it as
  before. ResNet-18 took 0.84 of its time without, ResNet-50 0.78,
  DenseNet-121 (4x128²) 0.9, MobileNetV3 0.93 (one thread of an AMD EPYC, Zen 5, beside other work).
- torch's AOTAutogradCache keeps no program of such a graph, whose weights are this process's.
- They take their memory twice, what MKL packs three times: the original stays, for you and for what else reads it.
- Before each call every weight, and what is folded into it, is compared with what was packed: the tensor itself, its
  memory and its version. What changed is packed anew: `load_state_dict`, an optimizer, `weight.mul_(2)`,
  `module.weight = …`. What is written through `weight.data` or from numpy changes no version and is **not** seen, as
  with Inductor's `freezing`; there call `torch.compiler.reset()`. Tensors made under `inference_mode` have no versions,
  and are packed in every call.
- Training graphs ignore it, and say so in the report; nothing else of a graph is taken for constant.

## `tiered`
```python
model = torch.compile(model, backend="cuesta", options={"tiered": True})
model(x)  # answered op by op in ATen; another process compiles meanwhile
cuesta.wait_for_tiers()  # only where you want to measure: nothing else has to wait
model(x)  # the program
```

A graph that the cache has runs as its program at once. Any other is imported and handed to a process of its own, which
starts with the first of them and ends with yours; until it answers, the graph runs as the ATen ops that it was traced
into, about as fast as in eager. Who multiplies on a machine that has never been asked, the other process measures too.
The program takes over between two calls. Results differ by no more than eager's and
compiled ones do; random numbers, what is written to arguments, and strides are the same in both tiers.

- `cuesta.report()` says which tier of each graph runs, since when, and if it stays the first, why.
- An error in the background is logged (`cuesta`), and the first tier stays. So it does in a process that was forked
  meanwhile. No process waits for the background when it ends.
- At once, in the first call, is compiled what another process cannot make alone: with `dump` or `memory_limit`, with
  `max_autotune` on a GPU, where torch is to keep the code (`aot_compile`), and graphs with ops of your own libraries.
- Without a cache the next process compiles anew.

## `memory_limit`
```python
torch.compile(model, backend="cuesta", options={"memory_limit": 2 << 30})
```

What a call takes of torch's allocator beside its arguments and weights (results, what lies between kernels, what is
saved for the backward graph) is known before it runs: `peak_bytes` of `cuesta.report()`. Where it is above the limit,
these are tried in turn, and the report says what it took:

1. buffers lie outside the arena and are freed when dead, however small;
2. steps run in another order, what lets go of most first;
3. in training, less is saved and more is computed again (torch's partitioner, `activation_memory_budget`).

Where none is within, `cuesta.errors.MemoryLimitError` (the `inner_exception` of torch's `BackendCompilerFailed`) comes
before anything of the graph has run: what it would take, and the largest buffers at that moment with who writes them.
A forward and a backward graph are one step, and both are compiled at the first call. Each graph of a model with graph
breaks is held to the limit by itself. Sizes that depend on the call are compiled for as they come, each with a plan of
its own, and there a backward graph is refused when it is first called, after its forward graph has run. Graphs that run
op by op or in pieces have no plan and are refused; CUDA graphs are not recorded.

Not counted is what a library takes inside of one call (the scratch of a sort or a convolution, MKL's buffers), the
stacks of kernels, and what torch's CUDA allocator rounds up.

## `checked`
```python
model = torch.compile(model, backend="cuesta", options={"checked": True})
```

For finding errors of cuesta's own, not for work: a call takes up to six times as long, and the code is another.
Kernels compare each address, before they read or write there, with the begin and the end of the buffer that it is in,
scratch memory of their own included. What is outside is not touched, and the call raises a `BoundsError`: which kernel,
which of its buffers, a read or a write, how many bytes outside, and the source line, as far as it is known:

```
BoundsError: kernel add_relu: a write up to 4 bytes behind the end of its buffer 1 (memory for a result), of model.py:31
```

| | on a CPU | target `tt` | CUDA |
| --- | --- | --- | --- |
| each read and write of a kernel is inside its buffer | in the kernel's code | in the interpreter | not checked |
| what kernels and calls are given lies in its memory | when compiled, or with a call's sizes | likewise | likewise |
| nothing wrote in the 4 KB around the arena and around each result | after the call | likewise | not checked |
| arena and results hold NaNs before the call, so that what is read and was never written shows | always | always | no |

What calls into ATen do within their memory, and to arguments and buffers that ATen allocates, is not looked at. So that
they have memory around them, results are allocated before the program runs, and cannot be resized (`resize_`). A kernel
for CUDA can be checked where it was found to be wrong by compiling the same graph for target `tt`, on CPU tensors.
Programs of this option have cache entries of their own; without it, code, keys and calls are what they would be if the
option did not exist.

## `bitwise_eager`
For elementwise graphs on CPU: every value has the bits of eager's, at the price of speed. Compiled, and fused, are
views and copies, `where`, comparisons, logic, integer arithmetic, and the float ops that IEEE 754 rounds once (`+`,
`-`, `*`, `/`, `abs`, `neg`, `floor`, `round`, conversions, …), each rounded to its dtype as in eager. Everything else
is called in ATen, whole: `exp`, `tanh`, `sqrt`, `x ** 3`, `a + alpha * b`, `maximum` of floats, softmax, norms, sums,
products of matrices, attention. No op is taken apart, and no mask of an attention is replaced. It cannot hold

- which NaN a NaN is: sign and payload differ between eager's own kernels as well;
- the value of a float out of range as an integer, which C++ does not define;
- the bits of what a library computes (matrix products, convolution, attention): it is called with the same sizes and
  strides, but may round otherwise for memory that is aligned otherwise, or with another count of threads;
- strides: results have those that torch traces, and some of torch's fake kernels foretell others than eager gives;
- kernels for GPUs: Triton may round a product and a sum once.
"""


def page() -> str:
    """The text of docs/options.md."""
    modes = [[f"`{name}`", _settings(options), MODE_EFFECTS[name]] for name, options in list_mode_options().items()]
    options = [[f"`{n}`", f"`{kind}`", f"`{default!r}`", text] for n, kind, default, text in options_of(Options)]
    variables = [[f"`{name}`", text] for name, _, _, text in options_of(Environment)]
    parts = [
        _HEAD,
        "## Modes",
        *_table(["mode", "sets", "effect"], modes),
        "",
        "## Options",
        *_table(["option", "type", "default", "effect"], options),
        "",
        "## Environment variables",
        "They are read at each compile; an option goes before its variable. Any other whose name begins with `CUESTA_`",
        "is warned of, once, with what is near it.",
        "",
        *_table(["variable", "meaning"], variables),
    ]
    return "\n".join(parts) + "\n" + _TAIL


def _settings(options: dict[str, object]) -> str:
    return ", ".join(f"`{name}`: {value}" for name, value in options.items()) or "nothing"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


if __name__ == "__main__":
    print(page(), end="")
