"""Attention stays one op from Dynamo's graph to the cuesta dialect, on every route, with eager's numbers.

The routes' kernels are for GPUs; what is compared here are the dialect's references, on CPU tensors, with
the shapes and strides that torch says the kernels give.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from cuesta.frontend.attention.keep_whole import keep_attention_whole
from cuesta.policy.attention_routes import AttentionCall, choose_route
from cuesta.targets import parse_target

CUDA, TT = parse_target("cuda:90"), parse_target("tt")
sdpa = F.scaled_dot_product_attention


def heads(count: int, length: int, depth: int, seed: int) -> torch.Tensor:
    """[2, count, length, depth], which has [2, length, count, depth] in memory, as models' heads do."""
    numbers = torch.randn(2, length, count, depth, generator=torch.Generator().manual_seed(seed))
    return numbers.transpose(1, 2)


Q, K, V = heads(4, 12, 16, 0), heads(4, 12, 16, 1), heads(4, 12, 16, 2)
FEW_K, FEW_V = heads(2, 12, 16, 3), heads(2, 12, 16, 4)
SHORT_K, SHORT_V = heads(4, 9, 16, 5), heads(4, 9, 16, 6)
SHOWN = torch.rand(2, 1, 12, 12, generator=torch.Generator().manual_seed(7)) > 0.3
SHOWN[..., 0] = True
ADDED = torch.randn(12, 12, generator=torch.Generator().manual_seed(8))


def lower(length: int = 12, keys: int = 12) -> torch.Tensor:
    return torch.arange(keys) <= torch.arange(length)[:, None]


def repeated(x: torch.Tensor) -> torch.Tensor:
    """As transformers' models repeat keys and values for groups of heads."""
    return x[:, :, None, :, :].expand(2, 2, 2, 12, 16).reshape(2, 4, 12, 16)


#: name → (function, its inputs, route in f32, route in bf16, whether it is causal without a mask)
CASES: dict[str, tuple[Any, ...]] = {
    "plain": (sdpa, (Q, K, V), "efficient", "cudnn", False),
    "causal": (functools.partial(sdpa, is_causal=True), (Q, K, V), "efficient", "cudnn", True),
    "scaled": (functools.partial(sdpa, scale=0.3), (Q, K, V), "efficient", "cudnn", False),
    "fewer keys": (sdpa, (Q, SHORT_K, SHORT_V), "efficient", "cudnn", False),
    "fewer keys, causal": (
        functools.partial(sdpa, is_causal=True), (Q, SHORT_K, SHORT_V), "efficient", "efficient", True,
    ),
    "boolean mask": (lambda q, k, v: sdpa(q, k, v, SHOWN), (Q, K, V), "efficient", "cudnn", False),
    "added mask": (lambda q, k, v: sdpa(q, k, v, ADDED.to(q.dtype)), (Q, K, V), "efficient", "cudnn", False),
    "computed mask, causal": (
        lambda q, k, v: sdpa(q, k, v, lower().expand(2, 1, 12, 12)), (Q, K, V), "efficient", "cudnn", True,
    ),
    "computed mask, all true": (
        lambda q, k, v: sdpa(q, k, v, (torch.arange(12) >= 0)[:, None].expand(12, 12)),
        (Q, K, V), "efficient", "cudnn", False,
    ),
    "computed mask, window": (
        lambda q, k, v: sdpa(q, k, v, lower() & lower().flip(0, 1)), (Q, K, V), "efficient", "cudnn", False,
    ),
    "grouped": (functools.partial(sdpa, enable_gqa=True), (Q, FEW_K, FEW_V), "efficient", "cudnn", False),
    "one head for all queries": (sdpa, (Q, FEW_K[:, :1], FEW_V[:, :1]), "efficient", "cudnn", False),
    "grouped by hand": (
        lambda q, k, v: sdpa(q, repeated(k), repeated(v)), (Q, FEW_K, FEW_V), "efficient", "cudnn", False,
    ),
}  # fmt: skip
MASKED = ("boolean mask", "added mask", "computed mask, window")


def gradients(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """The result and the gradients of the inputs."""
    # detach().clone() keeps the order of dims in memory.
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    result = function(*leaves)
    result.square().sum().backward()
    return [result.detach(), *(x.grad for x in leaves if x.grad is not None)]


def ops_of(run: Any, name: str) -> list[Any]:
    from cuesta.dialects import walk

    return [op for op in walk(run.graph.module.operation) if op.name == name]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_one_op_each_way(name: str, dtype: torch.dtype, capture: Any) -> None:
    function, inputs, *routes, causal = CASES[name]
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    inputs = tuple(x.to(dtype) for x in inputs)
    expected = gradients(function, inputs)
    actual = gradients(capture.compile(function), inputs)
    # The references keep f32 between the two products, eager on CPU does not everywhere.
    tolerance = {} if dtype == torch.float32 else {"atol": 0.05, "rtol": 0.05}
    torch.testing.assert_close(actual, expected, **tolerance)
    for run, op_name, before_mask in zip(
        capture.runs, ("cuesta.attention", "cuesta.attention_backward"), (3, 6), strict=True
    ):
        (op,) = ops_of(run, op_name)
        assert op.attributes["route"].value == routes[dtype == torch.bfloat16]
        assert bool(op.attributes["causal"].value) == causal
        assert len(op.operands) - before_mask == (name in MASKED)


def test_keys_repeated_by_hand_are_taken_before_that(capture: Any) -> None:
    function, inputs, *_ = CASES["grouped by hand"]
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    gradients(capture.compile(function), tuple(x.bfloat16() for x in inputs))
    (op,) = ops_of(capture.runs[0], "cuesta.attention")
    assert str(op.operands[1].type) == "tensor<2x2x12x16xbf16>"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_efficient_kernels_mask_has_aligned_rows(dtype: torch.dtype, capture: Any) -> None:
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    shown = SHOWN[:1, :, :, :9]
    p = 0.1  # cuDNN's dropout would round it
    capture.compile(lambda q, k, v: sdpa(q, k, v, shown, dropout_p=p))(*(x.to(dtype) for x in (Q, SHORT_K, SHORT_V)))
    (op,) = ops_of(capture.run, "cuesta.dropout_attention")
    assert op.attributes["route"].value == "efficient"
    assert [s.value for s in list(op.attributes["operand_strides"])[3]] == [0, 0, 16, 1]


@pytest.mark.parametrize(("dtype", "p", "route"), [
    (torch.bfloat16, 0.5, "cudnn"), (torch.bfloat16, 0.4, "flash"), (torch.float32, 0.4, "efficient"),
])  # fmt: skip
def test_dropout(dtype: torch.dtype, p: float, route: str, capture: Any) -> None:
    """v's gradient says which weights were kept: with q = 0 they are all equal."""
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    q = torch.zeros(1, 1, 64, 64, dtype=dtype, requires_grad=True)
    k = torch.zeros_like(q, requires_grad=True)
    v = torch.eye(64, dtype=dtype)[None, None].requires_grad_()
    weights = capture.compile(lambda q, k, v: sdpa(q, k, v, dropout_p=p))(q, k, v)
    kept = weights.detach() != 0
    assert abs(kept.float().mean().item() - (1 - p)) < 0.05
    torch.testing.assert_close(weights[kept].float().mean().item(), 1 / 64 / (1 - p), rtol=0.01, atol=0)
    weights.backward(torch.ones_like(weights))
    assert v.grad is not None
    torch.testing.assert_close(v.grad[0, 0, :, 0].float(), weights[0, 0].float().sum(0), rtol=0.02, atol=0.02)
    for run, name in zip(capture.runs, ("cuesta.dropout_attention", "cuesta.dropout_attention_backward"), strict=True):
        (op,) = ops_of(run, name)
        assert op.attributes["route"].value == route


def test_equal_calls_draw_their_own_numbers(capture: Any) -> None:
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    leaves = [x.detach().clone().requires_grad_() for x in (Q, K, V)]
    function = capture.compile(lambda q, k, v: [sdpa(q, k, v, dropout_p=0.5), sdpa(q, k, v, dropout_p=0.5)])
    one, other = function(*leaves)
    assert not torch.equal(one, other)
    assert len(ops_of(capture.runs[0], "cuesta.dropout_attention")) == 2


def test_autocast(capture: Any) -> None:
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return sdpa(q, k, v, ADDED)

    result = capture.compile(function)(Q, K, V)
    torch.testing.assert_close(result, function(Q, K, V), atol=0.05, rtol=0.05)
    (op,) = ops_of(capture.run, "cuesta.attention")
    assert all(str(x.type).endswith("xbf16>") for x in op.operands)


def test_some_inputs_need_no_gradient(capture: Any) -> None:
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    k = K.clone().requires_grad_()
    capture.compile(sdpa)(Q, k, V).sum().backward()
    other = K.clone().requires_grad_()
    sdpa(Q, other, V).sum().backward()
    torch.testing.assert_close(k.grad, other.grad)


def left_alone(function: Callable[..., Any], capture: Any, *inputs: torch.Tensor) -> bool:
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    torch.testing.assert_close(capture.compile(function)(*inputs), function(*inputs))
    return not any(ops_of(run, "cuesta.attention") and "route" in ops_of(run, "cuesta.attention")[0].attributes
                   for run in capture.runs)  # fmt: skip


def test_calls_that_stay_torchs(capture: Any) -> None:
    def chosen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            return sdpa(q, k, v)

    assert left_alone(chosen, capture, Q, K, V)
    assert left_alone(sdpa, capture, Q[0], K[0], V[0])  # three dims
    assert left_alone(sdpa, capture, Q.double(), K.double(), V.double())
    assert left_alone(sdpa, capture, Q.transpose(-1, -2), K.transpose(-1, -2), V.transpose(-1, -2))
    assert left_alone(torch.vmap(sdpa), capture, Q[None], K[None], V[None])
    mask = ADDED.clone().requires_grad_()
    assert left_alone(sdpa, capture, Q, K, V, mask)
    assert not left_alone(sdpa, capture, Q, K, V)


@pytest.mark.parametrize("mask", [None, "added"])
@pytest.mark.parametrize("shape", [(2, 12, 16), (2, 4, 3, 12, 16)])
def test_narrow_heads_of_other_dims(shape: tuple[int, ...], mask: str | None, capture: Any) -> None:
    """torch has no kernel for them, and would multiply in f32."""
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    # The heads of windows lie beside each other, as models cut them from one product.
    inputs = tuple(torch.randn(*shape[:-3], 12, shape[-3], 16).bfloat16().transpose(-2, -3) for _ in range(3))
    bias = ADDED.bfloat16() if mask else None

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return sdpa(q, k, v, bias)

    expected = gradients(attend, inputs)
    actual = gradients(capture.compile(attend), inputs)
    torch.testing.assert_close(actual, expected, atol=0.05, rtol=0.05)
    assert actual[0].stride() == expected[0].stride()
    for run, name in zip(capture.runs, ("cuesta.attention", "cuesta.attention_backward"), strict=True):
        (op,) = ops_of(run, name)
        assert op.attributes["route"].value == "cudnn"


def test_wide_heads_of_other_dims_stay_torchs(capture: Any) -> None:
    assert left_alone(sdpa, capture, Q[None], K[None], V[None])
    masks = torch.zeros(1, 2, 4, 12, 12, dtype=torch.bfloat16)
    assert left_alone(sdpa, capture, *(x[None].bfloat16() for x in (Q, K, V)), masks)


def test_the_outputs_strides_are_those_that_eager_gave(capture: Any) -> None:
    """The efficient kernel gives [B, L, H, D] in memory whatever q is, eager on CPU what q has."""
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    for q, k, v in ((Q, K, V), (Q.contiguous(), K.contiguous(), V.contiguous())):
        capture.compile(sdpa)(q, k, v)
        (function,) = (op for op in capture.run.graph.module.body.operations)
        promised = [s.value for s in function.attributes["res_attrs"][0]["cuesta.strides"]]
        assert promised == [*sdpa(q, k, v).stride()]
        # A view that is legal for eager's strides only.
        if q.is_contiguous():
            viewed = capture.compile(lambda q, k, v: sdpa(q, k, v).view(2, -1, 16))(q, k, v)
            torch.testing.assert_close(viewed, sdpa(q, k, v).view(2, -1, 16))


def test_strides_that_nobody_sees_cost_no_copy(capture: Any) -> None:
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    capture.compile(lambda q, k, v: sdpa(q, k, v).transpose(1, 2).contiguous().view(2, 12, 64))(
        Q.contiguous(), K.contiguous(), V.contiguous()
    )
    assert capture.run.ops() == ["cuesta.attention", "cuesta.permute", "cuesta.reshape"]


@pytest.mark.parametrize("causal", [False, True])
def test_narrow_heads_whose_elements_lie_apart_are_copied_for_the_kernel(causal: bool, capture: Any) -> None:
    """As of pixels, whose channels lie apart. torch would multiply in f32."""
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    apart = [x.bfloat16().mT.contiguous().mT for x in (Q, K, V)]
    function = functools.partial(sdpa, is_causal=causal)
    found = capture.compile(function)(*apart)
    (op,) = ops_of(capture.run, "cuesta.attention")
    assert op.attributes["route"].value == "cudnn"
    torch.testing.assert_close(found, function(*(x.contiguous() for x in apart)), rtol=2e-2, atol=2e-2)
    assert [s.value for s in next(iter(op.attributes["operand_strides"]))][-1] == 1


def test_user_switches_are_kept(monkeypatch: pytest.MonkeyPatch, capture: Any) -> None:
    monkeypatch.setattr(torch.backends.cuda, "cudnn_sdp_enabled", lambda: False)
    capture.rewrite = functools.partial(keep_attention_whole, target=CUDA)
    capture.compile(sdpa)(Q.bfloat16(), K.bfloat16(), V.bfloat16())
    (op,) = ops_of(capture.run, "cuesta.attention")
    assert op.attributes["route"].value == "flash"


def test_masks_are_proven_on_cpu_too(capture: Any) -> None:
    capture.rewrite = keep_attention_whole
    function, inputs, *_ = CASES["computed mask, causal"]
    torch.testing.assert_close(capture.compile(function)(*inputs), function(*inputs))
    (op,) = ops_of(capture.run, "cuesta.attention")
    assert len(op.operands) == 3
    assert op.attributes["causal"].value == 1


def test_a_call_that_torch_takes_apart_keeps_its_mask(capture: Any) -> None:
    """With dropout there is no kernel on CPU; "causal" would become another mask, made by ATen."""
    capture.rewrite = keep_attention_whole
    capture.compile(lambda q, k, v: sdpa(q, k, v, lower(), dropout_p=0.5))(Q, K, V)
    assert "aten.tril.default" not in capture.run.reasons()


@pytest.mark.parametrize("name", CASES)
def test_compiled_for_the_interpreter(name: str) -> None:
    function, inputs, *_ = CASES[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", options={"target": "tt"}, dynamic=False)
    torch.testing.assert_close(gradients(compiled, inputs), gradients(function, inputs))


@pytest.mark.parametrize(("call", "target", "route"), [
    (AttentionCall("bf16", (1, 8, 64, 64), (1, 8, 64, 64), (1, 8, 64, 64)), "cuda:90", "cudnn"),
    (AttentionCall("bf16", (1, 8, 64, 64), (1, 8, 64, 64), (1, 8, 64, 64)), "cuda:80", "flash"),
    (AttentionCall("bf16", (1, 8, 64, 64), (1, 8, 64, 64), (1, 8, 64, 64)), "hip:gfx942", None),
    (AttentionCall("bf16", (1, 8, 64, 64), (1, 8, 64, 64), (1, 8, 64, 64)), "tt", "cpu"),
    (AttentionCall("f64", (1, 8, 64, 64), (1, 8, 64, 64), (1, 8, 64, 64)), "cuda:90", None),
    (AttentionCall("f16", (1, 8, 64, 256), (1, 8, 64, 256), (1, 8, 64, 256)), "cuda:90", "cudnn"),
    (AttentionCall("f16", (1, 8, 64, 256), (1, 8, 64, 256), (1, 8, 64, 256)), "cuda:100", "flash"),
    (AttentionCall("f16", (1, 8, 64, 264), (1, 8, 64, 264), (1, 8, 64, 264)), "cuda:90", "efficient"),
    (AttentionCall("f16", (1, 8, 64, 512), (1, 8, 64, 512), (1, 8, 64, 512)), "cuda:90", "efficient"),
    (AttentionCall("f16", (1, 8, 64, 60), (1, 8, 64, 60), (1, 8, 64, 60)), "cuda:90", None),
    (AttentionCall("f32", (1, 8, 64, 60), (1, 8, 64, 60), (1, 8, 64, 60)), "cuda:90", "efficient"),
    (AttentionCall("bf16", (1, 8, 64, 64), (1, 8, 32, 64), (1, 8, 32, 64), causal=True), "cuda:90", "efficient"),
    (AttentionCall("bf16", (1, 8, 64, 64), (1, 8, 64, 64), (1, 8, 64, 64), True), "cuda:80", "cudnn"),
    (AttentionCall("bf16", (1, 8, 64, 64), (1, 3, 64, 64), (1, 3, 64, 64)), "cuda:90", None),
    (AttentionCall("bf16", (1, 8, 0, 64), (1, 8, 64, 64), (1, 8, 64, 64)), "cuda:90", None),
])  # fmt: skip
def test_route(call: AttentionCall, target: str, route: str | None) -> None:
    assert choose_route(call, parse_target(target)) == route
