"""Autograd around and within compiled code (contract, points 4 and 13)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import compiled_autograd
from torch.testing import assert_close

Check = Callable[..., Any]


def gradients(module: nn.Module) -> dict[str, Tensor | None]:
    return {name: p.grad for name, p in module.named_parameters()}


def test_double_backward_is_a_clear_error(backend: str) -> None:
    x = torch.randn(4, requires_grad=True)
    y = torch.compile(lambda x: torch.sin(x).sum(), backend=backend)(x)
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()


@pytest.mark.parametrize("how", ["around", "config"])
def test_compiled_autograd(how: str, backend: str) -> None:
    ours = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    theirs = copy.deepcopy(ours)
    x = torch.randn(3, 4)
    if how == "around":
        with compiled_autograd._enable(torch.compile(backend=backend)):
            torch.compile(ours, backend=backend)(x).sum().backward()
    else:

        def step(x: Tensor) -> None:
            ours(x).sum().backward()

        with torch._dynamo.config.patch(compiled_autograd=True):
            torch.compile(step, backend=backend)(x)
    theirs(x).sum().backward()
    assert_close(gradients(ours), gradients(theirs))


def test_a_hook_on_a_tensor_within(backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.sin(x)
        y.register_hook(lambda gradient: gradient * 2)
        return y.sum()

    x = torch.randn(4, requires_grad=True)
    torch.compile(f, backend=backend)(x).backward()
    assert_close(x.grad, 2 * torch.cos(x.detach()))


def test_hooks_of_a_module(backend: str) -> None:
    module, seen = nn.Linear(4, 4), []
    module.register_forward_pre_hook(lambda _module, inputs: (inputs[0] * 2,))
    module.register_full_backward_hook(lambda _module, _inputs, outputs: seen.append(outputs[0].shape))
    module.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.shape))
    x = torch.randn(2, 4, requires_grad=True)
    y = torch.compile(module, backend=backend)(x)
    assert_close(y, nn.functional.linear(x * 2, module.weight, module.bias))
    y.sum().backward()
    assert sorted(seen) == [(2, 4), (4, 4)]


class TripledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * gradient * x


def test_a_function_with_its_own_gradient(backend: str) -> None:
    x = torch.randn(4, requires_grad=True)
    torch.compile(lambda x: TripledGradient.apply(torch.sin(x)).sum(), backend=backend, fullgraph=True)(x).backward()
    assert_close(x.grad, 3 * torch.sin(x) * torch.cos(x))


def test_inference_tensors(backend: str) -> None:
    compiled = torch.compile(lambda x: torch.softmax(x, -1) * 2, backend=backend)
    with torch.inference_mode():
        x = torch.randn(3, 4)
    assert_close(compiled(x), torch.softmax(x, -1) * 2)
    with torch.inference_mode():
        assert compiled(x).is_inference()
    assert not compiled(torch.randn(3, 4)).is_inference()


def test_a_gradient_in_another_layout(backend: str) -> None:
    """The backward is traced for a gradient as the result is laid out; what arrives may be laid out otherwise."""

    def f(x: Tensor) -> Tensor:
        return torch.sin(x) * x

    x = torch.randn(4, 6, requires_grad=True)
    y = torch.compile(f, backend=backend)(x)
    for gradient in (torch.randn(6, 4).t(), torch.randn(1, 6).expand(4, 6), torch.randn(4, 12)[:, ::2]):
        (actual,) = torch.autograd.grad(y, x, gradient, retain_graph=True)
        (expected,) = torch.autograd.grad(f(x), x, gradient)
        assert_close(actual, expected)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.func.vmap(f),
        lambda f: torch.func.grad(lambda x: f(x).sum()),
        lambda f: torch.func.vmap(torch.func.grad(lambda x: f(x).sum())),
        lambda f: torch.func.jacrev(f),
        lambda f: torch.func.jacfwd(f),
        lambda f: lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),)),
        lambda f: lambda x: torch.func.vjp(f, x)[1](torch.ones_like(x)),
        lambda f: torch.func.hessian(lambda x: f(x).sum()),
    ],
    ids=["vmap", "grad", "vmap_grad", "jacrev", "jacfwd", "jvp", "vjp", "hessian"],
)
def test_function_transforms(transform: Callable[..., Any], same_as_eager: Check) -> None:
    same_as_eager(transform(lambda x: torch.tanh(x) * x), torch.randn(3, 2))
