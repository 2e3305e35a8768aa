"""How a compiled function is called: grad modes, autocast, threads, copies, failures, options."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

Check = Callable[..., Any]


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


# Grad modes, autocast, hooks, transforms -------------------------------------------------------------------------


def test_grad_modes(backend: str) -> None:
    module = mlp()
    compiled = torch.compile(module, backend=backend)
    x = torch.randn(4, 8)
    expected = module(x).detach()
    for context, requires_grad, inference in (
        (torch.no_grad, False, False),
        (torch.inference_mode, False, True),
        (torch.enable_grad, True, False),
    ):
        for _ in range(2):
            with context():
                y = compiled(x)
            assert (y.requires_grad, y.is_inference()) == (requires_grad, inference)
            assert_close(y.detach(), expected)


def test_no_grad_inside(same_as_eager: Check) -> None:
    def partly(x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            scale = x.abs().amax()
        return x / scale, scale

    same_as_eager(partly, torch.randn(5, requires_grad=True))


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "around"])
def test_autocast(inside: bool, backend: str) -> None:
    module = mlp()

    def run(x: Tensor) -> Tensor:
        if inside:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return module(x)
        return module(x)

    x = torch.randn(4, 8)
    compiled = torch.compile(run, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not inside):
        actual, expected = compiled(x), run(x)
    assert actual.dtype == expected.dtype == torch.bfloat16
    # Fused code keeps float32 where eager rounds to bfloat16 between two ops: a few of its steps of 2^-8.
    assert_close(actual, expected, rtol=4e-2, atol=2e-2)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not inside):
        compiled(x).float().square().mean().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in module.parameters())
    assert run(x).dtype == (torch.bfloat16 if inside else torch.float32)


def test_without_autocast_after_it(backend: str) -> None:
    module = mlp()
    compiled = torch.compile(module, backend=backend)
    x = torch.randn(4, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled(x)
    assert_close(compiled(x), module(x))


def test_hooks(backend: str) -> None:
    module, seen = mlp(), []
    module[0].register_forward_hook(lambda _module, _inputs, output: output * 2)
    x = torch.randn(4, 8, requires_grad=True)
    expected = module(x)
    y = torch.compile(module, backend=backend)(x)
    assert_close(y, expected)
    y.register_hook(lambda gradient: seen.append(gradient.shape))
    y.sum().backward()
    assert seen == [(4, 4)]


@pytest.mark.may_fall_back
def test_fake_tensors(cuesta_only: None) -> None:
    # They have no memory: a program that read or wrote them would crash.
    import cuesta

    compiled = torch.compile(lambda module, x: module(x), backend="cuesta")
    with FakeTensorMode():
        module = mlp()
        y = compiled(module, torch.randn(4, 8))
        y.sum().backward()
    assert isinstance(y, FakeTensor)
    assert all(isinstance(p.grad, FakeTensor) for p in module.parameters())
    assert {graph.fallback for graph in cuesta.report().graphs} == {"its arguments are fake tensors"}

    real, x = mlp(), torch.randn(4, 8)
    assert_close(compiled(real, x), real(x))
    assert cuesta.report().graphs[-1].fallback is None


def test_function_transforms_inside(same_as_eager: Check) -> None:
    def per_row(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        gradient = torch.func.grad(lambda w: torch.tanh(x @ w).sum())(w)
        return gradient, torch.vmap(lambda row: row * row.sum())(x)

    same_as_eager(per_row, torch.randn(5, 3), torch.randn(3, 2))


def test_activation_checkpointing(backend: str) -> None:
    ours = mlp()
    theirs = copy.deepcopy(ours)
    x = torch.randn(4, 8)
    run = torch.compile(lambda x: checkpoint(ours, x, use_reentrant=False).square().mean(), backend=backend)
    run(x).backward()
    theirs(x).square().mean().backward()
    assert_close([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])


def test_autograd_inside(same_as_eager: Check) -> None:
    def penalty(x: Tensor) -> Tensor:
        y = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(torch.sin(y).sum(), y)
        return gradient * x

    same_as_eager(penalty, torch.randn(5), fullgraph=False)


def test_an_optimizer_step(backend: str) -> None:
    ours = mlp()
    theirs = copy.deepcopy(ours)
    x = torch.randn(4, 8)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01, eps=1e-3) for m in (ours, theirs)]
    steps = [torch.compile(lambda: optimizers[0].step(), backend=backend), optimizers[1].step]
    for _ in range(3):
        for module, optimizer, step in zip((ours, theirs), optimizers, steps, strict=True):
            optimizer.zero_grad()
            module(x).square().mean().backward()
            step()
    # Three steps, each from the rounding of the one before: twice the tolerance of one.
    assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-5, atol=2e-5)


def test_random_numbers_repeat_under_a_seed(backend: str) -> None:
    compiled = torch.compile(lambda: (torch.rand(100), torch.randn(100)), backend=backend, fullgraph=True)

    def draw(seed: int) -> Any:
        torch.manual_seed(seed)
        return compiled()

    first, same, other, following = draw(1), draw(1), draw(2), compiled()
    assert_close(same, first, rtol=0, atol=0)
    assert not torch.equal(other[0], first[0])
    assert not torch.equal(following[0], other[0])
    assert bool(((first[0] >= 0) & (first[0] < 1)).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_pythons_random_numbers(dtype: torch.dtype, cuesta_only: None) -> None:
    """Dynamo traces one as f32 and passes f64, of which Inductor reads the bits as if they were f32."""

    def scaled(x: Tensor) -> Tensor:
        return (x + 1) * random.uniform(0, 1) - random.randint(2, 9)

    compiled = torch.compile(scaled, backend="cuesta", fullgraph=True)
    x = torch.ones(4, dtype=dtype)
    found = []
    for function in (scaled, compiled):
        random.seed(7)
        found.append([function(x) for _ in range(3)])
    assert_close(found[1], found[0])


def test_fallback_random_gives_eagers_numbers(cuesta_only: None) -> None:
    def draw(x: Tensor) -> tuple[Tensor, Tensor]:
        return F.dropout(x, 0.5), torch.rand_like(x)

    x = torch.randn(100)
    torch.manual_seed(5)
    expected = draw(x)
    torch.manual_seed(5)
    assert_close(torch.compile(draw, backend="cuesta", options={"fallback_random": True})(x), expected)


# Copies, state, threads ------------------------------------------------------------------------------------------


def test_deepcopy_of_a_compiled_module(backend: str) -> None:
    compiled = torch.compile(mlp(), backend=backend)
    x = torch.randn(4, 8)
    expected = compiled(x)
    other = copy.deepcopy(compiled)
    assert_close(other(x), expected)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert_close(other(x), torch.zeros(4, 4))
    assert_close(compiled(x), expected)


def test_state_dict(backend: str) -> None:
    module, donor = mlp(), mlp()
    compiled = torch.compile(module, backend=backend)
    x = torch.randn(4, 8)
    compiled(x)
    assert {key.removeprefix("_orig_mod.") for key in compiled.state_dict()} == set(module.state_dict())
    module.load_state_dict(donor.state_dict())
    assert_close(compiled(x), donor(x))
    # Replacing a parameter's data is seen as well: weights are inputs, not constants.
    module[0].weight = nn.Parameter(torch.zeros_like(module[0].weight))
    assert_close(compiled(x), module(x))


@pytest.mark.parametrize("warm", [True, False], ids=["compiled_before", "first_call_at_once"])
def test_threads_that_call_one_function(warm: bool, backend: str) -> None:
    module = mlp()
    compiled = torch.compile(module, backend=backend)
    inputs = [torch.randn(64, 8) * (i + 1) for i in range(4)]
    with torch.no_grad():
        expected = [module(x) for x in inputs]
        if warm:
            compiled(inputs[0])
    barrier = Barrier(len(inputs))

    def call(index: int) -> list[Tensor]:
        barrier.wait()
        with torch.no_grad():
            return [compiled(inputs[index]) for _ in range(50 if warm else 1)]

    with ThreadPoolExecutor(len(inputs)) as pool:
        for results, want in zip(pool.map(call, range(len(inputs))), expected, strict=True):
            for result in results:
                assert_close(result, want)


def test_training_in_threads(backend: str) -> None:
    def gradient(x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
        x = x.clone().requires_grad_()
        run(x).square().sum().backward()
        assert x.grad is not None
        return x.grad

    module = mlp().requires_grad_(False)
    compiled = torch.compile(module, backend=backend)
    inputs = [torch.randn(16, 8) for _ in range(4)]
    gradient(inputs[0], compiled)
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(lambda x: gradient(x, compiled), inputs * 5))
    for got, x in zip(actual, inputs * 5, strict=True):
        assert_close(got, gradient(x, module))


def test_number_of_threads_may_change(backend: str) -> None:
    before = torch.get_num_threads()
    compiled = torch.compile(lambda x: torch.softmax(x, -1).sum(0), backend=backend)
    x = torch.randn(257, 129)
    try:
        for threads in (1, 2, 3, 1):
            torch.set_num_threads(threads)
            assert_close(compiled(x), torch.softmax(x, -1).sum(0))
    finally:
        torch.set_num_threads(before)


# Failures --------------------------------------------------------------------------------------------------------


def test_an_exception_in_the_function(backend: str) -> None:
    def guarded(x: Tensor, limit: int) -> Tensor:
        if limit < 0:
            raise ValueError("limit is negative")
        return x.clamp(max=limit)

    compiled = torch.compile(guarded, backend=backend)
    x = torch.randn(6)
    assert_close(compiled(x, 1), x.clamp(max=1))
    with pytest.raises(ValueError, match="limit is negative"):
        compiled(x, -1)
    assert_close(compiled(x, 1), x.clamp(max=1))


def test_shapes_that_do_not_fit(backend: str) -> None:
    compiled = torch.compile(lambda x, w: torch.relu(x @ w), backend=backend)
    with pytest.raises(Exception, match=r"cannot be multiplied|invalid matrix multiplication|same reduction dim"):
        compiled(torch.randn(3, 4), torch.randn(5, 6))
    x, w = torch.randn(3, 5), torch.randn(5, 6)
    assert_close(compiled(x, w), torch.relu(x @ w))


@pytest.mark.parametrize("rows", [3, 100_000], ids=["one_thread", "all_threads"])
def test_an_index_out_of_range_raises_and_the_program_goes_on(rows: int, backend: str) -> None:
    if backend == "inductor" and rows > 3:
        pytest.skip("Inductor's kernel throws inside an OpenMP region, which ends the process")
    table = torch.randn(10, 4)
    compiled = torch.compile(lambda i, t: F.embedding(i, t).sum(1) + t[i].sum(1), backend=backend)
    good = torch.arange(rows) % 10
    assert_close(compiled(good, table), 2 * table[good].sum(1))
    bad = good.clone()
    bad[-1] = 10
    with pytest.raises((IndexError, RuntimeError), match=r"out of range|out of bounds"):
        compiled(bad, table)
    assert_close(compiled(good, table), 2 * table[good].sum(1))


# Options ---------------------------------------------------------------------------------------------------------


def f(x: Tensor) -> Tensor:
    return torch.sin(x) * 2


@pytest.mark.parametrize(
    ("wrong", "valid"),
    [({"options": {"nonsense": 1}}, "epilogue_fusion"), ({"mode": "nonsense"}, "reduce-overhead")],
    ids=["options", "mode"],
)
def test_a_wrong_option_is_one_clear_error(wrong: dict[str, Any], valid: str, cuesta_only: None) -> None:
    from cuesta.errors import OptionError

    with pytest.raises((OptionError, torch._dynamo.exc.BackendCompilerFailed)) as caught:
        torch.compile(f, backend="cuesta", **wrong)(torch.randn(3))
    cause = getattr(caught.value, "inner_exception", caught.value)
    assert isinstance(cause, OptionError)
    assert "nonsense" in str(cause)
    assert valid in str(cause)
    # Nothing is left behind that would spoil the next compile.
    assert_close(torch.compile(f, backend="cuesta")(torch.ones(3)), f(torch.ones(3)))


@pytest.mark.parametrize(
    "options",
    [{"epilogue_fusion": "perhaps"}, {"fallback_random": 3.5}, {"trace.enabled": "yes please"}],
    ids=lambda options: next(iter(options)),
)
def test_an_option_of_the_wrong_type(options: dict[str, Any], cuesta_only: None) -> None:
    with pytest.raises(Exception, match=next(iter(options))):
        torch.compile(f, backend="cuesta", options=options)(torch.randn(3))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes(mode: str, cuesta_only: None) -> None:
    x = torch.randn(3, 5)
    assert_close(torch.compile(f, backend="cuesta", mode=mode)(x), f(x))


def test_the_backend_as_a_callable(cuesta_only: None) -> None:
    import cuesta

    x = torch.randn(3, 5)
    assert_close(torch.compile(f, backend=cuesta.backend)(x), f(x))


def test_the_backend_is_listed(cuesta_only: None) -> None:
    assert "cuesta" in torch._dynamo.list_backends()
