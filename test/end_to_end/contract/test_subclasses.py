"""Tensor subclasses (contract, points 15 and 20): they reach cuesta taken apart, and come back whole."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing import assert_close
from torch.testing._internal.two_tensor import TwoTensor


@pytest.fixture
def mesh() -> Iterator[Any]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


def test_dtensor(mesh: Any, backend: str) -> None:
    def f(x: DTensor, w: DTensor) -> DTensor:
        return torch.softmax(x @ w, -1) * 2

    x, w = torch.randn(4, 4), torch.randn(4, 4)
    sharded = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    y = torch.compile(f, backend=backend, fullgraph=True)(sharded, distribute_tensor(w, mesh, [Replicate()]))
    assert isinstance(y, DTensor)
    assert y.placements == (Shard(0),)
    assert_close(y.to_local(), torch.softmax(x @ w, -1) * 2)
    y.pow(2).sum().backward()
    assert sharded.grad is not None
    plain = x.clone().requires_grad_()
    (torch.softmax(plain @ w, -1) * 2).pow(2).sum().backward()
    assert_close(sharded.grad.full_tensor(), plain.grad)


def test_a_wrapper_of_two_tensors(backend: str) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return (torch.sin(x) * y).t()

    pair = TwoTensor(torch.randn(3, 4), torch.randn(3, 4))
    other = torch.randn(3, 4)
    result = torch.compile(f, backend=backend, fullgraph=True)(pair, other)
    assert type(result) is TwoTensor
    assert_close((result.a, result.b), (f(pair.a, other), f(pair.b, other)))


def test_a_write_to_a_wrapper(backend: str) -> None:
    pair = TwoTensor(torch.ones(3), torch.zeros(3))
    torch.compile(lambda x: x.mul_(2).add_(1), backend=backend, fullgraph=True)(pair)
    assert_close((pair.a, pair.b), (torch.full((3,), 3.0), torch.ones(3)))


class Tagged(Tensor):
    """A subclass that only adds a method."""

    def twice(self) -> Tensor:
        return self * 2


def test_a_subclass_without_dispatch(backend: str) -> None:
    x = torch.randn(3).as_subclass(Tagged)
    y = torch.compile(lambda x: x.twice() + 1, backend=backend)(x)
    assert type(y) is Tagged
    assert_close(y.as_subclass(Tensor), x.as_subclass(Tensor) * 2 + 1)


def nested() -> Tensor:
    return torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)


def test_jagged_tensors(backend: str) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.sin(x) * 2

    compiled, x = torch.compile(f, backend=backend, fullgraph=True), nested()
    y = compiled(x)
    assert y.is_nested
    assert y.shape == x.shape
    assert_close(y.values(), f(x.values()))
    longer = torch.nested.nested_tensor([torch.randn(n, 4) for n in (5, 1, 2)], layout=torch.jagged)
    assert_close(compiled(longer).values(), f(longer.values()))


def test_training_on_jagged_tensors(backend: str) -> None:
    layer, x = nn.Linear(4, 4), nested()

    def loss(x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(layer(x)).values().sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that they are a prototype
        actual = torch.autograd.grad(torch.compile(loss, backend=backend)(x), tuple(layer.parameters()))
        expected = torch.autograd.grad(loss(x), tuple(layer.parameters()))
    assert_close(actual, expected)
