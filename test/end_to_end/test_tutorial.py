"""What PyTorch's torch.compile tutorial shows, step by step.

https://docs.pytorch.org/tutorials/intermediate/torch_compile_tutorial.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close


def sin_plus_cos(x: Tensor, y: Tensor) -> Tensor:
    return torch.sin(x) + torch.cos(y)


def divided(a: Tensor, b: Tensor) -> Tensor:
    """The tutorial's `bar`: which way it goes depends on data."""
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.lin(x))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.out = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.sin(self.inner(x)))


def test_a_function(same_as_eager: Callable[..., Any]) -> None:
    same_as_eager(sin_plus_cos, torch.randn(10, 10), torch.randn(10, 10))


def test_a_decorator(backend: str) -> None:
    @torch.compile(backend=backend)
    def decorated(x: Tensor, y: Tensor) -> Tensor:
        return torch.sin(x) + torch.cos(y)

    x, y = torch.randn(10, 10), torch.randn(10, 10)
    assert_close(decorated(x, y), sin_plus_cos(x, y))


def test_a_module(backend: str) -> None:
    module = Inner()
    x = torch.randn(5, 3)
    expected = module(x)
    assert_close(torch.compile(module, backend=backend)(x), expected)
    module.compile(backend=backend)
    assert_close(module(x), expected)


def test_nested_modules_are_one_graph(backend: str) -> None:
    module, counter = Outer(), CompileCounterWithBackend(backend)
    x = torch.randn(5, 3)
    assert_close(torch.compile(module, backend=counter, fullgraph=True)(x), module(x))
    assert counter.frame_count == 1


def test_nested_functions_are_one_graph(backend: str) -> None:
    inner, counter = Inner(), CompileCounterWithBackend(backend)

    def outer(x: Tensor, y: Tensor) -> Tensor:
        return sin_plus_cos(inner(x), y) * 2

    x, y = torch.randn(5, 3), torch.randn(5, 3)
    assert_close(torch.compile(outer, backend=counter, fullgraph=True)(x, y), outer(x, y))
    assert counter.frame_count == 1


@pytest.mark.parametrize("recursive", [True, False])
def test_disable(recursive: bool, backend: str) -> None:
    def innermost(x: Tensor) -> tuple[Tensor, bool]:
        return torch.cos(x), torch.compiler.is_compiling()

    @torch.compiler.disable(recursive=recursive)
    def disabled(x: Tensor) -> tuple[Tensor, bool, bool]:
        y, compiling = innermost(torch.sin(x))
        return y, torch.compiler.is_compiling(), compiling

    def outer(x: Tensor) -> tuple[Tensor, bool, bool]:
        y, here, inside = disabled(x * 2)
        return y + 1, here, inside

    x = torch.randn(4)
    y, here, inside = torch.compile(outer, backend=backend)(x)
    assert_close(y, torch.cos(torch.sin(x * 2)) + 1)
    assert not here
    assert inside is not recursive, "recursive=False leaves what the function calls to the compiler"


def test_control_flow_that_depends_on_data_breaks_the_graph(backend: str) -> None:
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(divided, backend=counter)
    a, b = torch.randn(10), torch.rand(10)
    assert_close(compiled(a, b), divided(a, b))
    assert counter.frame_count == 2, "one graph before the branch, one after it"
    assert_close(compiled(a, -b), divided(a, -b))
    assert counter.frame_count == 3, "the other branch"
    assert_close(compiled(a, b), divided(a, b))
    assert counter.frame_count == 3


def test_gradients_cross_a_graph_break(backend: str) -> None:
    a, b = torch.randn(10, requires_grad=True), torch.rand(10, requires_grad=True)
    expected = torch.autograd.grad(divided(a, -b).sum(), (a, b))
    actual = torch.autograd.grad(torch.compile(divided, backend=backend)(a, -b).sum(), (a, b))
    assert_close(actual, expected)


def test_a_call_to_scipy_in_the_middle(backend: str) -> None:
    scipy_fft = pytest.importorskip("scipy.fft", reason="scipy is a test dependency")

    def transformed(x: Tensor) -> Tensor:
        x = x * 2
        x = scipy_fft.dct(x.numpy())
        x = torch.from_numpy(x)
        return x * 2

    x = torch.randn(16)
    assert_close(torch.compile(transformed, backend=backend)(x), transformed(x))


def test_a_custom_backend_beside_ours(backend: str) -> None:
    seen: list[torch.fx.GraphModule] = []

    def custom_backend(module: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        seen.append(module)
        return module.forward

    x, y = torch.randn(10), torch.randn(10)
    for _ in range(2):
        assert_close(torch.compile(sin_plus_cos, backend=custom_backend)(x, y), sin_plus_cos(x, y))
        assert_close(torch.compile(sin_plus_cos, backend=backend)(x, y), sin_plus_cos(x, y))
    assert len(seen) == 1


def test_explain(backend: str) -> None:
    explanation = torch._dynamo.explain(divided)(torch.randn(10), torch.ones(10))
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    # It resets Dynamo and leaves it usable.
    a, b = torch.randn(10), torch.ones(10)
    assert_close(torch.compile(divided, backend=backend)(a, b), divided(a, b))


def test_fullgraph_refuses_a_graph_break(backend: str) -> None:
    compiled = torch.compile(divided, backend=backend, fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"[Dd]ata-dependent"):
        compiled(torch.randn(10), torch.randn(10))


def test_cond_keeps_both_branches_in_one_graph(same_as_eager: Callable[..., Any]) -> None:
    def divided_with_cond(a: Tensor, b: Tensor) -> Tensor:
        x = a / (torch.abs(a) + 1)
        return x * torch.cond(b.sum() < 0, lambda y: y * -1, lambda y: y.clone(), (b,))

    compiled = same_as_eager(divided_with_cond, torch.randn(10), torch.ones(10))
    a = torch.randn(10)
    assert_close(compiled(a, -torch.ones(10)), divided(a, -torch.ones(10)))


def test_an_exported_program(backend: str) -> None:
    module = Outer().eval()
    x = torch.randn(5, 3)
    program = torch.export.export(module, (x,))
    compiled = torch.compile(program.module(), backend=backend)
    with torch.no_grad():
        assert_close(compiled(x), module(x))


def test_an_exported_program_of_any_batch_size(backend: str) -> None:
    module = Outer().eval()
    program = torch.export.export(module, (torch.randn(5, 3),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(program.module(), backend=counter, dynamic=True)
    with torch.no_grad():
        for batch in (5, 7, 12):
            x = torch.randn(batch, 3)
            assert_close(compiled(x), module(x))
    assert counter.frame_count == 1


def test_training_as_in_the_tutorial(backend: str) -> None:
    def train(backend_or_eager: str | None) -> list[float]:
        torch.manual_seed(3)
        module = Outer()
        optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
        run = module if backend_or_eager is None else torch.compile(module, backend=backend_or_eager)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(run(torch.randn(16, 3)), torch.randint(2, (16,)))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    # Five steps of Adam, each of which divides a gradient by its own size: rounding grows from step to step.
    assert train(backend) == pytest.approx(train(None), rel=1e-4)


def test_reset_forgets_what_was_compiled(backend: str) -> None:
    counter = CompileCounterWithBackend(backend)
    x, y = torch.randn(10), torch.randn(10)
    for _ in range(2):
        compiled = torch.compile(sin_plus_cos, backend=counter)
        for _ in range(2):
            assert_close(compiled(x, y), sin_plus_cos(x, y))
        torch._dynamo.reset()
    assert counter.frame_count == 2
