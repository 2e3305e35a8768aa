"""Real models, in eval and in a training step, against eager: values, dtypes, shapes, strides, gradients, statistics.

Values are judged by `cuesta.tools.accuracy`: no further from float64 than eager is, within a small factor. A fixed
tolerance would be too tight for fifty layers or blind to small gradients; see there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from cuesta.tools.accuracy import as_float64, check_close, named_tensors, neighbours
from cuesta.tools.models import MODELS, Built, ModelCase, find_model
from cuesta.tools.models.case import Size

CASES = pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
#: The two that take half a minute; resnet18 and the others train the same kinds of layers.
LONG = ("resnet50", "densenet121")
#: One with dropout between layers and in attention, and one within a recurrent layer; the others have the same.
DROPOUT = ("bert_encoder", "lstm")


def cases(taken: Callable[[ModelCase], bool], usual: Callable[[ModelCase], bool]) -> pytest.MarkDecorator:
    """The models that are `taken`; those that are not `usual` run with CUESTA_FULL=1."""
    marked = [pytest.param(c, id=c.name, marks=() if usual(c) else pytest.mark.slow) for c in MODELS if taken(c)]
    return pytest.mark.parametrize("case", marked)


TRAINED = cases(lambda case: True, lambda case: case.name not in LONG)
WITH_DROPOUT = cases(lambda case: case.has_dropout, lambda case: case.name in DROPOUT)


@pytest.fixture(autouse=True)
def whole_recurrent_networks() -> Iterator[None]:
    """Lets Dynamo trace nn.LSTM, where it would break the graph: the layers inside are to be compiled as well."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def objective(module: nn.Module, built: Built, inputs: dict[str, Any], targets: Tensor) -> tuple[Any, Tensor]:
    """The outputs and the loss."""
    outputs = module(**inputs)
    return outputs, built.loss(outputs, targets)


def training_step(module: nn.Module, built: Built, inputs: dict[str, Any], targets: Tensor, backend: str | None) -> Any:
    """One step of SGD: outputs, gradients, and the state after it.

    SGD, as Adam divides a gradient by its own size: where that is pure rounding, so is the step.
    """
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    run = objective if backend is None else torch.compile(objective, backend=backend, fullgraph=True)
    outputs, loss = run(module, built, inputs, targets)
    loss.backward()
    gradients = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    optimizer.step()
    return named_tensors((outputs, loss)), gradients, module.state_dict()


def check_eval(case: ModelCase, size: Size, backend: str) -> None:
    built = case.make(size)
    module = built.module.eval()
    counter = CompileCounterWithBackend(backend)
    wide, wide_inputs = as_float64(module, built.inputs)
    with torch.no_grad():
        expected = named_tensors(module(**built.inputs))
        exact = named_tensors(wide(**wide_inputs))
        compiled = torch.compile(module, backend=counter, fullgraph=True)
        actual = named_tensors(compiled(**built.inputs))
        again = named_tensors(compiled(**built.inputs))
    assert expected
    check_close(actual, expected, exact, what="outputs")
    check_close(again, expected, exact, what="outputs of the second call")
    assert counter.frame_count == 1


def check_training_step(case: ModelCase, size: Size, backend: str) -> None:
    built = case.make(size)
    wide, wide_inputs = as_float64(built.module, built.inputs)
    wide_targets = built.targets.double() if built.targets.is_floating_point() else built.targets
    exact = training_step(wide, built, wide_inputs, wide_targets, None)
    expected = training_step(copy.deepcopy(built.module), built, built.inputs, built.targets, None)
    nearby = [training_step(m, built, i, built.targets, None) for m, i in neighbours(built.module, built.inputs)]
    actual = training_step(built.module, built, built.inputs, built.targets, backend)
    for part, what in enumerate(("outputs", "gradients", "parameters and buffers after the step")):
        assert expected[part]
        others = [step[part] for step in nearby]
        check_close(actual[part], expected[part], exact[part], what=what, nearby=others)


@CASES
def test_eval(case: ModelCase, backend: str) -> None:
    check_eval(case, "small", backend)


@TRAINED
def test_training_step(case: ModelCase, backend: str) -> None:
    check_training_step(case, "small", backend)


@pytest.mark.slow
@CASES
def test_eval_at_full_size(case: ModelCase, backend: str) -> None:
    check_eval(case, "full", backend)


@pytest.mark.slow
@CASES
def test_training_step_at_full_size(case: ModelCase, backend: str) -> None:
    check_training_step(case, "full", backend)


@pytest.mark.parametrize("name", ["resnet18", pytest.param("densenet121", marks=pytest.mark.slow)])
def test_batch_norm_statistics_over_three_steps(name: str, backend: str) -> None:
    built = find_model(name).make()
    eager = copy.deepcopy(built.module)
    wide, _ = as_float64(built.module, {})
    compiled = torch.compile(built.module, backend=backend, fullgraph=True)
    with torch.no_grad():
        for step in range(3):
            image = built.inputs["image"] * (step + 1)
            compiled(image), eager(image), wide(image.double())
    statistics = dict(built.module.named_buffers())
    assert any(name.endswith("num_batches_tracked") and int(value) == 3 for name, value in statistics.items())
    check_close(statistics, dict(eager.named_buffers()), dict(wide.named_buffers()), what="statistics")


@WITH_DROPOUT
def test_dropout_repeats_under_a_seed(case: ModelCase, backend: str) -> None:
    built = case.make(dropout=0.3)
    compiled = torch.compile(objective, backend=backend, fullgraph=True)

    def losses_and_gradients(seed: int) -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(seed)
        _, loss = compiled(built.module, built, built.inputs, built.targets)
        parameters = [p for p in built.module.parameters() if p.requires_grad]
        return loss.detach(), [g for g in torch.autograd.grad(loss, parameters, allow_unused=True) if g is not None]

    first, same, other = losses_and_gradients(7), losses_and_gradients(7), losses_and_gradients(8)
    torch.testing.assert_close(same, first)
    assert not torch.equal(first[0], other[0])


def test_dropout_backward_uses_the_mask_of_the_forward(backend: str) -> None:
    def scaled(x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.4) * 3.0

    x = torch.randn(64, 96, requires_grad=True)
    y = torch.compile(scaled, backend=backend, fullgraph=True)(x)
    y.sum().backward()
    assert x.grad is not None
    kept = y != 0
    # 6144 draws: five standard deviations are 0.031.
    assert abs(float(kept.float().mean()) - 0.6) < 0.032
    torch.testing.assert_close(x.grad, kept * (3.0 / 0.6))
    torch.testing.assert_close(y, x * x.grad)


def test_recurrent_network_breaks_the_graph_by_default(backend: str) -> None:
    built = find_model("lstm").make()
    module = built.module.eval()
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=False):
        actual = torch.compile(module, backend=backend)(**built.inputs)
        expected = module(**built.inputs)
    torch.testing.assert_close(actual, expected)
