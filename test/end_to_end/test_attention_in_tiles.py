"""Attention as a kernel of ours on a CPU: values and gradients against f64, as exact as ATen's kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuesta
from cuesta.passes.libraries import compute_in_f32

Function = Callable[..., torch.Tensor]


def heads(count: int, length: int, depth: int, seed: int, batch: int = 2) -> torch.Tensor:
    """[batch, count, length, depth] that lies in memory as models' heads do."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, count, depth, generator=generator).transpose(1, 2)


def compiled(function: Function, attention: str = "kernel", **options: Any) -> Function:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", options={"attention": attention, **options})


def called() -> list[dict[str, Any]]:
    """The calls of ATen's attention in the last program, forward and backward."""
    graphs = cuesta.report().as_dict()["graphs"]
    return [call for graph in graphs for call in graph["aten_calls"] if "attention" in call["op"]]


def gradients(function: Function, inputs: Sequence[torch.Tensor], mask: torch.Tensor | None) -> list[torch.Tensor]:
    """The output, and the gradients of q, k and v."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    output = function(*leaves, mask)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(99))
    (output * weights.to(output.dtype)).sum().backward()
    return [output.detach(), *(x.grad for x in leaves if x.grad is not None)]


def wide(x: torch.Tensor | None) -> torch.Tensor | None:
    return x.double() if x is not None and x.is_floating_point() else x


def check(inputs: Sequence[torch.Tensor], mask: torch.Tensor | None = None, **kwargs: Any) -> None:
    """No result is further from f64's than twice ATen's is, and a few roundings."""

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **kwargs)

    ours = gradients(compiled(attention), inputs, mask)
    assert called() == []
    atens = gradients(attention, inputs, mask)
    exact = gradients(attention, [x.double() for x in inputs], wide(mask))
    for our, aten, right in zip(ours, atens, exact, strict=True):
        most = 2 * (aten - right).abs().max() + 4 * torch.finfo(torch.float32).eps * right.abs().max()
        assert (our - right).abs().max() <= most
        assert our.stride() == aten.stride() or 1 in our.shape


SIZES = [
    # heads, of k and v, queries, keys, depth, of v
    (2, 2, 64, 64, 64, 64),
    (3, 3, 197, 197, 64, 64),
    (2, 2, 130, 70, 128, 128),
    (4, 2, 33, 70, 80, 80),
    (4, 1, 70, 33, 40, 40),
    (2, 2, 5, 3, 8, 8),
    (2, 2, 1, 300, 64, 64),
    (2, 1, 17, 18, 24, 24),
    (1, 1, 16, 1, 1, 1),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes: tuple[int, ...], causal: bool) -> None:
    many, few, queries, keys, depth, width = sizes
    inputs = heads(many, queries, depth, 0), heads(few, keys, depth, 1), heads(few, keys, width, 2)
    check(inputs, is_causal=causal, enable_gqa=many != few)


def masks() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    added = torch.randn(2, 1, 50, 70, generator=generator)
    shown = torch.rand(2, 1, 50, 70, generator=generator) > 0.3
    return {
        "added": added,
        "shown": shown,
        "of keys": added[:, :, :1],
        "of keys, shown, stretched": shown[:, :, :1].expand(2, 2, 50, 70),
        "of queries": added[..., :1].expand(2, 1, 50, 70),
        "matrix": added[0, 0],
        "turned": torch.randn(2, 2, 70, 50, generator=generator).mT,
        "of each head": torch.randn(2, 2, 50, 70, generator=generator),
        "with gaps": torch.randn(2, 2, 50, 140, generator=generator)[..., ::2],
        "infinite": torch.where(shown, added, -math.inf),
    }


@pytest.mark.parametrize("name", masks())
def test_masks(name: str) -> None:
    check((heads(2, 50, 24, 0), heads(2, 70, 24, 1), heads(2, 70, 24, 2)), masks()[name])


@pytest.mark.parametrize("queries", [40, 64])
def test_rows_that_see_nothing_are_what_eager_makes_them(queries: int) -> None:
    shown = torch.rand(1, 1, queries, 70, generator=torch.Generator().manual_seed(3)) > 0.5
    shown[:, :, 3] = False
    inputs = [heads(2, n, 16, seed, batch=1) for seed, n in enumerate((queries, 70, 70))]
    for mask in (shown, torch.where(shown, 0.0, -math.inf)):
        ours = gradients(compiled(_masked), inputs, mask)
        assert called() == []
        for our, eager in zip(ours, gradients(_masked, inputs, mask), strict=True):
            torch.testing.assert_close(our, eager, equal_nan=True)


@pytest.mark.parametrize("queries", [1, 200])
@pytest.mark.parametrize("shown", [False, True])
def test_blocks_of_keys_that_no_query_of_a_panel_sees_are_passed_over(queries: int, shown: bool) -> None:
    """Blocks of hidden keys change nothing, and NaN in a mask hides no key."""
    positions = torch.arange(200)
    seen = (positions[-queries:, None] - positions).abs() < 20
    seen[:, 150:] = False
    mask = seen if shown else torch.where(seen, 0.0, -math.inf)
    inputs = (heads(2, 200, 16, 0), heads(2, 200, 16, 1), heads(2, 200, 16, 2))
    check(inputs, mask)
    if not shown:
        mask[:, 199] = math.nan
        assert gradients(compiled(_masked), inputs, mask)[0].isnan().all()


def _masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_reaches_what_it_reaches_in_eager(number: float) -> None:
    q, k, v = (heads(2, 40, 16, seed) for seed in range(3))
    v[0, 1, 5, 3] = number
    q[1, 0, 7] = number
    with torch.no_grad():
        ours, eager = compiled(_masked)(q, k, v, None), _masked(q, k, v, None)
    torch.testing.assert_close(ours, eager, equal_nan=True)


def test_layouts() -> None:
    """Rows of q, k and v in one tensor; heads outside; elements of a row that lie apart are copied first."""

    def of_one(x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        q, k, v = x.view(2, 40, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 40, 64)

    x = torch.randn(2, 40, 192, generator=torch.Generator().manual_seed(0))
    for function, given in ((of_one, [x]), (_masked, [torch.randn(2, 2, 16, 40).mT for _ in range(3)])):
        ours = gradients(compiled(function), given, None)
        assert called() == []
        for our, right in zip(ours, gradients(function, [g.double() for g in given], None), strict=True):
            torch.testing.assert_close(our.double(), right, rtol=1e-4, atol=1e-5)


def test_bits_repeat() -> None:
    """No sum depends on the number of threads."""
    inputs = heads(4, 150, 64, 0), heads(2, 150, 64, 1), heads(2, 150, 64, 2)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    function, threads = compiled(attention), torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 2):
            torch.set_num_threads(count)
            found.append(gradients(function, inputs, None))
    finally:
        torch.set_num_threads(threads)
    for again in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], again, strict=True))


def test_f16_is_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_in_f32, "slow_in_products", frozenset)  # as with AVX-512
    inputs = [heads(2, 40, 16, seed).half() for seed in range(3)]
    with torch.no_grad():
        torch.testing.assert_close(compiled(_masked)(*inputs, None), _masked(*inputs, None))
    (call,) = called()
    assert "other than f32" in call["reason"]


@pytest.mark.parametrize("has_mask", [False, True])
def test_bf16_is_widened_and_no_further_off_than_eager(has_mask: bool) -> None:
    inputs = [heads(2, 40, 16, seed).bfloat16() for seed in range(3)]
    mask = torch.randn(40, 40).bfloat16() if has_mask else None
    ours, eager = gradients(compiled(_masked), inputs, mask), gradients(_masked, inputs, mask)
    wide = gradients(_masked, [x.double() for x in inputs], None if mask is None else mask.double())
    for mine, theirs, exact in zip(ours, eager, wide, strict=True):
        assert mine.dtype == torch.bfloat16
        rounding = torch.finfo(torch.bfloat16).eps * exact.abs().max()
        assert (mine - exact).abs().max() <= (theirs - exact).abs().max() + rounding
    assert not called()


@pytest.mark.parametrize("sizes", [(0, 40, 40), (2, 0, 40), (2, 40, 0)], ids=str)
def test_nothing(sizes: tuple[int, ...]) -> None:
    batch, queries, keys = sizes
    inputs = [heads(2, n, 16, seed, batch) for seed, n in enumerate((queries, keys, keys))]
    for ours, eager in zip(gradients(compiled(_masked), inputs, None), gradients(_masked, inputs, None), strict=True):
        torch.testing.assert_close(ours, eager, equal_nan=True)


def of_a_call(case: str, batch: int, queries: int, keys: int) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    """q, k and v, and a mask where the case has one."""
    inputs = [heads(4, queries, 24, 0, batch), heads(2, keys, 24, 1, batch), heads(2, keys, 40, 2, batch)]
    generator = torch.Generator().manual_seed(queries)
    masks = {
        "added": torch.randn(batch, 1, queries, keys, generator=generator),
        "shown": torch.rand(queries, keys, generator=generator) > 0.3,
        "of keys": torch.randn(batch, 1, 1, keys, generator=generator),
        "turned": torch.randn(batch, 4, keys, queries, generator=generator).mT,
    }
    return inputs, masks.get(case)


@pytest.mark.parametrize("case", ["no mask", "causal", "added", "shown", "of keys", "turned"])
def test_one_kernel_serves_all_sizes(case: str) -> None:
    """Batch, queries and keys are what the call says: fewer than a vector or a block, more, and whole ones."""

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=case == "causal", enable_gqa=True)

    program = compiled(attention, cache=False)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        for x in (q, k, v):
            torch._dynamo.mark_dynamic(x, [0, 2])
        if mask is not None:
            torch._dynamo.mark_dynamic(mask, [d for d, n in enumerate(mask.shape) if n != 1 and d != mask.dim() - 3])
        return program(q, k, v, mask)

    for sizes in [(3, 40, 50), (2, 130, 197), (6, 5, 3), (5, 64, 128)]:
        inputs, mask = of_a_call(case, *sizes)
        ours, atens = gradients(function, inputs, mask), gradients(attention, inputs, mask)
        exact = gradients(attention, [x.double() for x in inputs], wide(mask))
        assert called() == []
        for our, aten, right in zip(ours, atens, exact, strict=True):
            most = 2 * (aten - right).abs().max() + 4 * torch.finfo(torch.float32).eps * right.abs().max()
            assert (our - right).abs().max() <= most
            assert our.stride() == aten.stride()
    assert len(cuesta.report().graphs) == 2  # forward and backward


@pytest.mark.parametrize("batch_and_heads", [(1, 4), (3, 1), (1, 1)])
def test_one_kernel_serves_all_lengths_of_one_head_or_batch(batch_and_heads: tuple[int, int]) -> None:
    """A loop over one batch or one head is none."""

    program = compiled(_masked, cache=False)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: None) -> torch.Tensor:
        for x in (q, k, v):
            torch._dynamo.mark_dynamic(x, 2)
        return program(q, k, v, mask)

    for n in (40, 9, 64, 130):
        inputs = [torch.randn(*batch_and_heads, n, 16, generator=torch.Generator().manual_seed(n)) for _ in range(3)]
        ours, atens = gradients(function, inputs, None), gradients(_masked, inputs, None)
        torch.testing.assert_close(ours, atens)
    assert called() == []
    assert [graph.specialised for graph in cuesta.report().graphs] == [None] * 2  # forward and backward


def test_heads_as_the_call_says_are_the_librarys() -> None:
    inputs = [heads(3, 40, 16, seed) for seed in range(3)]
    for x in inputs:
        torch._dynamo.mark_dynamic(x, 1)
    with torch.no_grad():
        torch.testing.assert_close(compiled(_masked)(*inputs, None), _masked(*inputs, None))
    (call,) = called()
    assert "heads whose number or size depends on the call" in call["reason"]


def test_equal_attention_is_one_kernel() -> None:
    def twice(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return _masked(_masked(q, k, v, None), k, v, None)

    with torch.no_grad():
        compiled(twice, cache=False)(*(heads(2, 40, 16, seed) for seed in range(3)))
    (graph,) = cuesta.report().as_dict()["graphs"]
    (kernel,) = graph["kernels"]
    assert kernel["uses"] == 2
