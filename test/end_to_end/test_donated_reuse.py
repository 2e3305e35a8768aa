"""What a loss saves for its gradient is made with its sum; the gradient may lie in it, unless anybody else can see
that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import cuesta
from cuesta.runtime.executable import ARENAS
from cuesta.tools.bench.measuring.memory import measure

Loss = Callable[[Tensor, Tensor], Tensor]


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta", **options)  # type: ignore[no-any-return, call-overload]


def _inputs(*sizes: int) -> tuple[Tensor, Tensor]:
    return torch.randn(sizes, requires_grad=True), torch.randn(sizes)


def _gradient(loss: Loss, x: Tensor, y: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(loss(x, y), x)
    return gradient


def _saved(result: Tensor) -> tuple[Tensor, ...]:
    assert result.grad_fn is not None
    return tuple(result.grad_fn.saved_tensors)  # type: ignore[attr-defined]


def _addresses(result: Tensor) -> list[int]:
    return [saved.data_ptr() for saved in _saved(result)]


LOSSES: dict[str, Loss] = {
    "mse_loss": F.mse_loss,
    "transposed": lambda x, y: F.mse_loss(x.t(), y.t()),
    "tanh": lambda x, y: (torch.tanh(x + y) * y).sum(),
    "sigmoid": lambda x, y: torch.sigmoid(x * y).mean(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_gradient_lies_in_what_was_saved(name: str) -> None:
    loss, (x, y) = LOSSES[name], _inputs(256, 256)
    compiled = _compiled(loss)
    for _ in range(2):
        result = compiled(x, y)
        saved = _addresses(result)
        x.grad = None
        result.backward()
        assert x.grad is not None
        assert x.grad.data_ptr() in saved
        assert (x.grad.stride(), x.grad.requires_grad, x.grad._is_view()) == (x.stride(), False, False)
        assert x.grad.untyped_storage().nbytes() == x.grad.nbytes
        torch.testing.assert_close(x.grad, _gradient(loss, x, y))


def test_a_step_takes_the_memory_once() -> None:
    x, y = _inputs(512, 512)
    compiled = _compiled(F.mse_loss)

    def call() -> Tensor:
        x.grad = None
        result: Tensor = compiled(x, y)
        result.backward()
        return result

    for _ in range(2):
        call()
    x.grad = None
    ARENAS.trim()
    assert measure(call).peak < 1.01 * x.nbytes


def test_a_gradient_is_added_to_one_that_lies_in_saved_memory() -> None:
    x, y = _inputs(256, 256)
    compiled = _compiled(F.mse_loss)
    for _ in range(3):
        compiled(x, y).backward()
    torch.testing.assert_close(x.grad, 3 * _gradient(F.mse_loss, x, y))


def test_what_somebody_looks_at_stays() -> None:
    x, y = _inputs(256, 256)
    result = _compiled(F.mse_loss)(x, y)
    saved = _saved(result)
    views, values = [t[:1] for t in saved], [t.clone() for t in saved]
    result.backward()
    torch.testing.assert_close(x.grad, _gradient(F.mse_loss, x, y))
    assert all(map(torch.equal, saved, values))
    assert all(torch.equal(view, value[:1]) for view, value in zip(views, values, strict=True))


def test_a_view_of_it_alone_is_enough() -> None:
    x, y = _inputs(256, 256)
    result = _compiled(F.mse_loss)(x, y)
    views = [t[:1] for t in _saved(result)]
    values = [view.clone() for view in views]
    result.backward()
    torch.testing.assert_close(x.grad, _gradient(F.mse_loss, x, y))
    assert all(map(torch.equal, views, values))


def test_what_hooks_for_saved_tensors_keep_stays() -> None:
    x, y = _inputs(256, 256)
    compiled, kept = _compiled(F.mse_loss), []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = compiled(x, y)
    values = [tensor.clone() for tensor in kept]
    result.backward()
    assert kept
    assert all(map(torch.equal, kept, values))
    torch.testing.assert_close(x.grad, _gradient(F.mse_loss, x, y))


def test_hooks_may_give_other_tensors() -> None:
    x, y = _inputs(256, 256)
    compiled = _compiled(F.mse_loss)
    larger = torch.zeros(2 * 256 * 256)

    def unpack(tensor: Tensor) -> Tensor:
        if tensor.shape != x.shape:
            return tensor
        return larger[256 * 256 :].view_as(x).copy_(tensor)

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        result = compiled(x, y)
    result.backward()
    torch.testing.assert_close(x.grad, _gradient(F.mse_loss, x, y))
    values = larger.clone()
    assert x.grad is not None
    x.grad.zero_()
    assert torch.equal(larger, values)
    with torch.autograd.graph.save_on_cpu():
        result = compiled(x, y)
    result.backward()
    torch.testing.assert_close(x.grad, _gradient(F.mse_loss, x, y))


def test_what_a_checkpoint_computes_again() -> None:
    x, y = _inputs(256, 256)
    compiled = _compiled(lambda x, y: torch.tanh(x) * y)

    def run(function: Callable[..., Any]) -> Tensor:
        (gradient,) = torch.autograd.grad(checkpoint(function, x, y, use_reentrant=False).sum(), x)
        return gradient

    torch.testing.assert_close(run(compiled), run(lambda x, y: torch.tanh(x) * y))


def test_a_retained_graph_can_be_gone_through_again() -> None:
    x, y = _inputs(256, 256)
    result = _compiled(F.mse_loss)(x, y)
    result.backward(retain_graph=True)
    once, values = x.grad, _saved(result)[0].clone()
    assert once is not None
    once = once.clone()
    assert torch.equal(_saved(result)[0], values)
    result.backward()
    torch.testing.assert_close(x.grad, 2 * once)
    torch.testing.assert_close(once, _gradient(F.mse_loss, x, y))


def test_a_gradient_that_is_to_have_one_leaves_what_was_saved() -> None:
    x, y = _inputs(256, 256)
    result = _compiled(F.mse_loss)(x, y)
    values = [t.clone() for t in _saved(result)]
    (gradient,) = torch.autograd.grad(result, x, create_graph=True)
    assert all(map(torch.equal, _saved(result), values))
    torch.testing.assert_close(gradient.detach(), _gradient(F.mse_loss, x, y))


def test_results_of_the_forward_graph_are_not_written() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.tanh(x + y)
        return z, (z * y).sum()

    x, y = _inputs(256, 256)
    z, total = _compiled(function)(x, y)
    values = z.detach().clone()
    total.backward()
    assert torch.equal(z, values)
    wanted = torch.autograd.grad(function(x, y)[1], x)[0]
    torch.testing.assert_close(x.grad, wanted)


def test_two_gradients_are_two_tensors() -> None:
    x, y = (torch.randn(256, 256, requires_grad=True) for _ in range(2))
    _compiled(F.mse_loss)(x, y).backward()
    assert x.grad is not None
    assert y.grad is not None
    wanted = torch.autograd.grad(F.mse_loss(x, y), (x, y))
    torch.testing.assert_close((x.grad, y.grad), wanted)
    x.grad.zero_()
    torch.testing.assert_close(y.grad, wanted[1])


def test_with_sizes_of_the_call() -> None:
    compiled = _compiled(F.mse_loss, dynamic=True)
    for rows in (256, 300, 512):
        x, y = _inputs(rows, 256)
        result = compiled(x, y)
        saved = _addresses(result)
        result.backward()
        assert x.grad is not None
        assert x.grad.data_ptr() in saved
        torch.testing.assert_close(x.grad, _gradient(F.mse_loss, x, y))


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"])
@pytest.mark.parametrize(("order", "most"), [((0, 1), 1), ((1, 0), 2)])
def test_a_loss_and_what_it_saves_are_one_kernel(name: str, order: tuple[int, int], most: int) -> None:
    x, y = (torch.randn(600, 512).permute(order) for _ in range(2))
    x.requires_grad_()
    loss: Loss = getattr(F, name)
    result = _compiled(loss)(x, y)
    result.backward()
    forward = next(g for g in cuesta.report().as_dict()["graphs"] if g["name"] == "forward")
    assert len(forward["kernels"]) <= most
    assert not any("copy" in kernel["ops"] for kernel in forward["kernels"])
    torch.testing.assert_close(result, loss(x, y))
    torch.testing.assert_close(x.grad, _gradient(loss, x, y))


def test_on_a_gpu_what_a_gradient_needs_in_between_lies_in_what_was_saved() -> None:
    """The gradient of logits is no result, but only what two products read: it lies where the logits were."""

    def loss(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(x @ weight, target)

    torch.manual_seed(0)
    x, weight = torch.randn(256, 32, requires_grad=True), torch.randn(32, 300, requires_grad=True)
    target = torch.randint(300, (256,))
    compiled = _compiled(loss, options={"target": "tt"})
    expected = torch.autograd.grad(loss(x, weight, target), (x, weight))
    for is_held in (False, True):
        result = compiled(x, weight, target)
        held = _saved(result) if is_held else ()
        before = [saved.clone() for saved in held]
        torch.testing.assert_close(torch.autograd.grad(result, (x, weight)), expected)
        torch.testing.assert_close(list(held), before)
    assert cuesta.report().as_dict()["graphs"][-1]["arena_bytes"] < 256 * 300 * 4
