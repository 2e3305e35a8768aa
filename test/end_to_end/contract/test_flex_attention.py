"""flex_attention is compiled with what is around it: into one program, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention as module
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing import assert_close

import cuesta

HEADS, LENGTH, DEPTH = 4, 80, 16
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
TABLE = torch.linspace(-1, 1, 2 * LENGTH)
DOCUMENTS = torch.arange(LENGTH) // 30


@pytest.fixture(autouse=True)
def eager_is_not_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of torch.compile, torch gives its implementation to Dynamo first, for each test anew as each begins with
    no graphs. Called as it is, the implementation gives the same bits in a tenth of the time."""
    monkeypatch.setattr(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True, raising=False)


#: A function of a score or None, and a mask or None.
Case = tuple[Callable[..., Tensor] | None, Callable[..., Tensor] | None]


def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


CASES: dict[str, Case] = {
    "plain": (None, None),
    "causal": (None, causal),
    "alibi": (lambda s, b, h, i, j: s + SLOPES[h] * (j - i), causal),
    "window": (None, lambda b, h, i, j: (i >= j) & (i - j < 20)),
    "documents": (None, lambda b, h, i, j: DOCUMENTS[i] == DOCUMENTS[j]),
    "soft cap": (lambda s, b, h, i, j: 5 * torch.tanh(s / 5), None),
    "relative": (lambda s, b, h, i, j: s + TABLE[i - j + LENGTH] * (b + 1), None),
    "rows that see nothing": (None, lambda b, h, i, j: (i >= 10) & (h != 1)),
}


def attended(name: str, **options: Any) -> Callable[..., Any]:
    """q, k, v → attention as the case has it, scaled before and after, so that there is something around it."""
    score, mask = CASES[name]
    table = create_block_mask(mask, 2, HEADS, LENGTH, LENGTH, device="cpu") if mask is not None else None

    def run(q: Tensor, k: Tensor, v: Tensor) -> Any:
        result = flex_attention(q * 2, k, v, score_mod=score, block_mask=table, **options)
        return [x + 1 for x in result] if isinstance(result, tuple) else result + 1

    return run


def steps_in_python() -> list[str]:
    """What the report says ran between programs."""
    graphs = cuesta.report().as_dict()["graphs"]
    return [call["op"] for graph in graphs for call in graph["aten_calls"] if call["route"] == "Python"]


def given(heads: int = HEADS, dtype: torch.dtype = torch.float32, batch: int = 2) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2 if i == 0 else batch, HEADS if i == 0 else heads, LENGTH, DEPTH).to(dtype) for i in range(3)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_results(name: str, dtype: torch.dtype) -> None:
    function, inputs = attended(name), given(dtype=dtype)
    assert_close(torch.compile(function, backend="cuesta", fullgraph=True)(*inputs), function(*inputs))
    assert not steps_in_python()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_of_a_gpu(name: str, dtype: torch.dtype) -> None:
    """One kernel computes the scores, what the functions make of them, their softmax and its product; no kernel writes
    a tensor of scores. The interpreter of tt runs it."""
    function, inputs = attended(name), given(dtype=dtype)
    options: dict[str, Any] = {"target": "tt", "attention": "kernel"}
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, options=options)
    exact = function(*(x.double() for x in inputs))
    most = 2 * (function(*inputs) - exact).abs().max() + torch.finfo(torch.float32).eps
    assert (compiled(*inputs) - exact).abs().max() <= most
    kernels = [set(kernel["ops"]) for graph in cuesta.report().as_dict()["graphs"] for kernel in graph["kernels"]]
    assert [ops for ops in kernels if "scores" in ops] == [ops for ops in kernels if "attention" in ops]
    assert sum("attention" in ops for ops in kernels) == 1


def test_factors_that_are_computed_are_made_in_the_kernel_of_a_gpu() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q * 2, k * 3, v * 2 + 1)

    options: dict[str, Any] = {"target": "tt", "attention": "kernel"}
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, options=options)
    assert_close(compiled(*given()), function(*given()))
    assert len(cuesta.report().as_dict()["graphs"][0]["kernels"]) == 1


TEXTS, ENDS, LENGTHS = torch.arange(400) // 150, torch.arange(400).clamp(min=70), torch.tensor([130])
STARTS, STOPS = (torch.arange(400) // 3).int(), (torch.arange(400) // 2 + 150).int()
MASKS: list[Callable[..., Tensor]] = [
    causal,
    lambda b, h, i, j: (j > i) & (j <= 300),
    lambda b, h, i, j: ~(i < j),
    lambda b, h, i, j: TEXTS[i] == TEXTS[j],
    lambda b, h, i, j: (TEXTS[i] == TEXTS[j]) & (i >= j),
    lambda b, h, i, j: j.to(torch.int64) < ENDS[i],
    lambda b, h, i, j: LENGTHS[b] > j.to(torch.int64),
    lambda b, h, i, j: (j >= STARTS[i]) & (j <= STOPS[i]),
    lambda b, h, i, j: (STARTS[i] < j) & (STOPS[i] > j) & (j <= i + 100),
]


@pytest.mark.parametrize("mask", MASKS)
def test_keys_that_a_mask_hides_are_not_read_on_a_gpu(mask: Callable[..., Tensor]) -> None:
    """The loop along the keys has the bounds that the mask's index expressions give it, or tables do, rounded to blocks
    of 64."""
    q, k, v = (torch.randn(1, 1, 400, DEPTH) for _ in range(3))
    table = create_block_mask(mask, None, None, 400, 400, device="cpu")
    expected = flex_attention(q, k, v, block_mask=table)
    options: dict[str, Any] = {"target": "tt", "attention": "kernel"}
    compiled = torch.compile(flex_attention, backend="cuesta", dynamic=False, options=options)
    assert_close(compiled(q, k, v, block_mask=table), expected)
    shown = torch.arange(400)[None, :], torch.arange(400)[:, None]
    for first in range(0, 400, 128):
        seen = mask(0, 0, shown[1][first : first + 128], shown[0]).expand(-1, 400).any(0).nonzero()
        low, high = (seen.min() // 64 * 64, -(-(seen.max() + 1) // 64) * 64) if len(seen) else (0, 0)
        broken = v.clone()
        broken[:, :, :low] = broken[:, :, high:] = torch.nan
        assert compiled(q, k, broken, block_mask=table)[:, :, first : first + 128].isfinite().all()


#: Names of the module, whose sizes Dynamo takes to be any numbers, unlike those of a closure.
OF_EACH_TEXT = torch.arange(2 * LENGTH).view(2, LENGTH) % 77
SHOWN = create_block_mask(lambda b, h, i, j: j < OF_EACH_TEXT[b, i], 2, HEADS, LENGTH, LENGTH, device="cpu")


def test_a_table_for_each_text_may_have_any_number_of_texts() -> None:
    """The kernel wraps the text's number around, with the number of texts, outside of its loop along the keys."""
    q, k, v = (torch.randn(2, HEADS, LENGTH, DEPTH) for _ in range(3))
    options: dict[str, Any] = {"target": "tt", "attention": "kernel"}

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=SHOWN)

    compiled = torch.compile(attend, backend="cuesta", dynamic=True, options=options)
    with torch.no_grad():
        assert_close(compiled(q, k, v), attend(q, k, v))


def test_fewer_heads_and_batches_of_keys_and_the_logsumexp() -> None:
    function, inputs = attended("alibi", enable_gqa=True, return_lse=True), given(heads=2, batch=1)
    assert_close(torch.compile(function, backend="cuesta", fullgraph=True)(*inputs), function(*inputs))
    assert not steps_in_python()


def test_a_result_keeps_the_order_of_dims_of_q() -> None:
    q, k, v = (torch.randn(2, LENGTH, HEADS, DEPTH).transpose(1, 2) for _ in range(3))
    result = torch.compile(lambda q, k, v: flex_attention(q, k, v), backend="cuesta")(q, k, v)
    assert result.stride() == q.stride() == flex_attention(q, k, v).stride()


def test_functions_with_numbers_of_their_own() -> None:
    """Tensors made of numbers, elements at positions that are numbers, and numbers of the caller."""
    table, width = torch.randn(2, 4), LENGTH // 2

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.where(i - j < width, s * torch.tensor(0.5) + table[0, 1] + table[b].sum(), -1e9)

    for options in ({}, {"target": "tt", "attention": "kernel"}):
        torch._dynamo.reset()
        compiled = torch.compile(flex_attention, backend="cuesta", options=options)
        assert_close(compiled(*given(), score_mod=score), flex_attention(*given(), score_mod=score))
        assert not steps_in_python()


def test_lengths_that_differ() -> None:
    compiled = torch.compile(lambda q, k, v: flex_attention(q, k, v, CASES["alibi"][0]), backend="cuesta", dynamic=True)
    for length in (24, 40, 57):
        q, k, v = (torch.randn(2, HEADS, length, DEPTH) for _ in range(3))
        assert_close(compiled(q, k, v), flex_attention(q, k, v, CASES["alibi"][0]))
    assert not steps_in_python()


@pytest.fixture
def gradients_on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch refuses to train with flex_attention on a CPU. The graphs are those of a GPU, and its own implementation
    computes them."""
    monkeypatch.setattr(module, "_validate_device", lambda *_: None)


@pytest.mark.usefixtures("gradients_on_cpu")
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    function, inputs = attended(name), [x.requires_grad_() for x in given()]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True)
    weight = torch.randn(2, HEADS, LENGTH, DEPTH)
    actual = torch.autograd.grad((compiled(*inputs) * weight).sum(), inputs)
    assert_close(actual, torch.autograd.grad((function(*inputs) * weight).sum(), inputs))
    assert not steps_in_python()


@pytest.mark.usefixtures("gradients_on_cpu")
@pytest.mark.parametrize("name", CASES)
def test_kernels_of_gradients_on_a_gpu(name: str) -> None:
    """One kernel for the gradient of q, and one for those of k and v, which compute what they need of the scores."""
    function = attended(name)

    def gradients(run: Callable[..., Any], dtype: torch.dtype) -> tuple[Tensor, ...]:
        inputs = [x.to(dtype).requires_grad_() for x in given(dtype=torch.bfloat16)]
        return torch.autograd.grad((run(*inputs) * weight.to(dtype)).sum(), inputs)

    weight = torch.randn(2, HEADS, LENGTH, DEPTH)
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, options={"target": "tt"})
    actual = gradients(compiled, torch.bfloat16)
    expected, exact = gradients(function, torch.bfloat16), gradients(function, torch.float64)
    for ours, eager, right in zip(actual, expected, exact, strict=True):
        assert (ours - right).norm() <= 2 * (eager - right).norm()
    graphs = cuesta.report().as_dict()["graphs"]
    assert [sum("factor" in kernel["ops"] for kernel in graph["kernels"]) for graph in graphs] == [0, 2]


@pytest.mark.usefixtures("gradients_on_cpu")
@pytest.mark.parametrize("mask", [None, causal, lambda b, h, i, j: (TEXTS[i] == TEXTS[j]) & (i >= j)])
@pytest.mark.parametrize("sizes", [(77, 77, 40, 40), (130, 197, 64, 64), (50, 200, 24, 48)])
def test_gradients_of_ragged_sizes_on_a_gpu(mask: Callable[..., Tensor] | None, sizes: tuple[int, ...]) -> None:
    """Lengths and heads that fill no blocks: what is loaded once, for rows and for columns, ends in zeros."""
    queries, keys, depth, width = sizes
    shapes = (queries, depth), (keys, depth), (keys, width), (queries, width)
    *given, weight = (torch.randn(2, 2, *shape).to(torch.bfloat16) for shape in shapes)
    table = create_block_mask(mask, None, None, queries, keys, device="cpu") if mask is not None else None

    def gradients(run: Callable[..., Any], dtype: torch.dtype) -> tuple[Tensor, ...]:
        inputs = [x.to(dtype).requires_grad_() for x in given]
        return torch.autograd.grad((run(*inputs, block_mask=table) * weight.to(dtype)).sum(), inputs)

    compiled = torch.compile(flex_attention, backend="cuesta", options={"target": "tt"})
    actual = gradients(compiled, torch.bfloat16)
    expected, exact = gradients(flex_attention, torch.bfloat16), gradients(flex_attention, torch.float64)
    for ours, eager, right in zip(actual, expected, exact, strict=True):
        assert (ours - right).norm() <= 2 * (eager - right).norm()


@pytest.mark.usefixtures("gradients_on_cpu")
@pytest.mark.parametrize("places", [(0, 0, 0), (0, 1, 1), (0, 0, 1), (0, 1, 0)])
def test_gradients_of_one_tensor_in_several_places_on_a_gpu(places: tuple[int, ...]) -> None:
    given = [torch.randn(1, 2, 50, 32).to(torch.bfloat16) for _ in range(2)]

    def function(*inputs: Tensor) -> Tensor:
        return flex_attention(*(inputs[i] for i in places)).square()

    def gradients(run: Callable[..., Any], dtype: torch.dtype) -> tuple[Tensor, ...]:
        inputs = [x.to(dtype).requires_grad_() for x in given[: max(places) + 1]]
        return torch.autograd.grad(run(*inputs).sum(), inputs)

    actual = gradients(torch.compile(function, backend="cuesta", options={"target": "tt"}), torch.bfloat16)
    expected, exact = gradients(function, torch.bfloat16), gradients(function, torch.float64)
    for ours, eager, right in zip(actual, expected, exact, strict=True):
        assert (ours - right).norm() <= 2 * (eager - right).norm()


CONSTANTS = torch.arange(256) // 70
#: Masks whose bounds by position leave some blocks of queries, or of keys, nothing.
EMPTY: list[Callable[..., Tensor]] = [
    lambda b, h, i, j: (CONSTANTS[i] == CONSTANTS[j]) & (i - 150 >= j),
    lambda b, h, i, j: (CONSTANTS[i] <= CONSTANTS[j]) & (j - 100 >= i),
    lambda b, h, i, j: (CONSTANTS[i] <= CONSTANTS[j]) & (i >= 100),
    lambda b, h, i, j: (CONSTANTS[i] == CONSTANTS[j]) & (i >= j),
]


@pytest.mark.usefixtures("gradients_on_cpu")
@pytest.mark.parametrize("mask", EMPTY)
@pytest.mark.parametrize("sizes", [(192, 192), (64, 256), (256, 64), (64, 130)])
def test_blocks_that_see_nothing_on_a_gpu(mask: Callable[..., Tensor], sizes: tuple[int, int]) -> None:
    table = create_block_mask(mask, None, None, *sizes, device="cpu")
    given = [torch.randn(1, 1, sizes[i > 0], 32) for i in range(3)]

    def results(run: Callable[..., Any]) -> list[Tensor]:
        inputs = [x.clone().requires_grad_() for x in given]
        result = run(*inputs, block_mask=table)
        return [result, *torch.autograd.grad(result.square().sum(), inputs)]

    options: dict[str, Any] = {"target": "tt", "attention": "kernel"}
    compiled = torch.compile(flex_attention, backend="cuesta", dynamic=False, options=options)
    assert_close(results(compiled), results(flex_attention), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rows_hidden_by_the_lowest_float_on_a_gpu(dtype: torch.dtype, scale: float) -> None:
    """They have equal weights, as in eager, though the lowest float times log2 e is infinite."""
    q, k, v = (torch.randn(1, 2, 130, 64).to(dtype) for _ in range(3))
    at = torch.arange(130)
    mask = (at[:, None] >= at) & (at[:, None] >= 10)

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q @ k.transpose(-1, -2) * 0.125).float().masked_fill(~mask, torch.finfo(torch.float32).min)
        return (scores * scale).softmax(-1).to(v.dtype) @ v

    compiled = torch.compile(attended, backend="cuesta", options={"target": "tt", "attention": "kernel"})
    actual = compiled(q, k, v)
    assert_close(actual, attended(q, k, v), rtol=0.0, atol=1e-2)
    assert_close(actual[:, :, :10], v.float().mean(2, keepdim=True).expand(1, 2, 10, 64).to(dtype))
    ((kernel,),) = ([k["ops"] for k in g["kernels"]] for g in cuesta.report().as_dict()["graphs"])
    assert "attention" in kernel


@pytest.mark.usefixtures("gradients_on_cpu")
@pytest.mark.parametrize("options", [{}, {"target": "tt"}])
def test_gradients_of_captured_tensors_and_of_the_logsumexp(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Dynamo is what finds captured tensors.
    monkeypatch.setattr(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", False, raising=False)
    table, factors = torch.randn(HEADS, 2 * LENGTH, requires_grad=True), torch.rand(HEADS, requires_grad=True)
    mask = create_block_mask(causal, None, None, LENGTH, LENGTH, device="cpu")

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output, logsumexp = flex_attention(
            q,
            k,
            v,
            score_mod=lambda s, b, h, i, j: torch.tanh(s * factors[h]) + table[h, i - j + LENGTH],
            block_mask=mask,
            enable_gqa=True,
            return_lse=True,
        )
        return output * logsumexp.unsqueeze(-1)

    inputs = [*(x.requires_grad_() for x in given(heads=2)), table, factors]
    compiled = torch.compile(function, backend="cuesta", fullgraph=True, options=options)
    actual = torch.autograd.grad(compiled(*inputs[:3]).sum(), inputs)
    assert_close(actual, torch.autograd.grad(function(*inputs[:3]).sum(), inputs), rtol=1e-4, atol=1e-5)
    assert not steps_in_python()


def test_exact_programs_leave_it_to_torch() -> None:
    function, inputs = attended("alibi"), given()
    compiled = torch.compile(function, backend="cuesta", options={"bitwise_eager": True})
    assert torch.equal(compiled(*inputs), function(*inputs))
    assert steps_in_python() == ["flex_attention"]


def test_products_of_narrow_floats_stay_narrow_on_cuda() -> None:
    class Attention(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs())

    inputs = tuple(given(dtype=torch.bfloat16))
    made = cuesta.compile_for(Attention(), inputs, target="cuda:90", options={"attention": "library"})
    assert "aten.bmm.dtype x1" in str(made)
    assert "1 kernel\n" in str(cuesta.compile_for(Attention(), inputs, target="cuda:90"))
