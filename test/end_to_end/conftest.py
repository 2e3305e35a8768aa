"""Defines the fixtures of the end-to-end tests.

CUESTA_TEST_BACKEND names another backend to run the tests with ("aot_eager", "inductor"). A test that fails with every
backend is itself wrong.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from cuesta.driver.background import service
from cuesta.driver.background.service import Answer, Service
from cuesta.driver.background.worker import answer_to
from cuesta.lowering.tt_to_binary.kernel import unpack
from cuesta.tools.bench.backends import fallbacks


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "may_fall_back(reason): a graph of this test may run op by op in Python")


@pytest.fixture(scope="session")
def backend() -> str:
    """The backend under test."""
    return os.environ.get("CUESTA_TEST_BACKEND", "cuesta")


@pytest.fixture(scope="session")
def cuesta_only(backend: str) -> None:
    """Skips a test of a cuesta-only feature if another backend is under test."""
    if backend != "cuesta":
        pytest.skip(f"tests cuesta itself; the backend under test is {backend}")


@pytest.fixture(autouse=True)
def fresh_dynamo(request: pytest.FixtureRequest, backend: str) -> Iterator[None]:
    """Fails a test in which a whole graph fell back to Python: such a graph agrees with eager because it is eager."""
    yield
    fell_back = fallbacks() if backend == "cuesta" else []
    if fell_back and "may_fall_back" not in request.keywords:
        pytest.fail("not compiled, but run op by op in Python: " + "; ".join(fell_back))


class StandIn:
    """Answers as the process does that compiles in the background, once `gate` is open; or ends in `failure`. A request
    without bytes asks for nothing."""

    alive = True

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked = threading.Event()
        self.requests: list[bytes] = []
        self.failure: Exception | None = None
        self.process = SimpleNamespace(kill=self.gate.set, wait=lambda: 0)

    def ask(self, request: bytes, _timeout: float) -> Answer:
        self.requests.append(request)
        self.asked.set()
        self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return answer_to(*unpack(request)) if request else ({}, b"")

    def end(self) -> None:
        self.process.kill()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Takes the place of the process that compiles in the background, with the gate closed."""
    stand_in = StandIn()
    running = Service(lambda: stand_in)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(service, "_SERVICE", running)
    yield stand_in
    running.end()


def _sharing(tensors: list[Tensor]) -> list[tuple[int, int]]:
    """The pairs of tensors that live in one storage. Empty storages have no address to compare."""
    addresses = [t.untyped_storage().data_ptr() for t in tensors]
    pairs = [(i, j) for j in range(len(tensors)) for i in range(j)]
    return [(i, j) for i, j in pairs if addresses[i] == addresses[j] != 0]


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.requires_grad)


@pytest.fixture
def same_as_eager(backend: str) -> Callable[..., Any]:
    """`same_as_eager(f, *arguments, **compile_options)`: runs f twice compiled and compares each call with eager.

    Compares the results (values at torch.testing's tolerances, NaN equal to NaN; dtype, shape, strides, offset,
    requires_grad), the arguments after the call, and which tensors share memory. Returns the compiled function.
    """

    def check(f: Callable[..., Any], *arguments: Any, fullgraph: bool = True, **options: Any) -> Callable[..., Any]:
        compiled = torch.compile(f, backend=backend, fullgraph=fullgraph, **options)
        for _ in range(2):
            # One deepcopy of all arguments, so that arguments that share memory still share it.
            ours, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
            got, want = compiled(*ours), f(*theirs)
            actual, actual_spec = pytree.tree_flatten((got, ours))
            expected, expected_spec = pytree.tree_flatten((want, theirs))
            assert actual_spec == expected_spec
            for a, e in zip(actual, expected, strict=True):
                if isinstance(e, Tensor):
                    torch.testing.assert_close(a, e, equal_nan=True)
                    assert _form(a) == _form(e)
                else:
                    assert (type(a), a) == (type(e), e)
            tensors = [[t for t in leaves if isinstance(t, Tensor)] for leaves in (actual, expected)]
            assert _sharing(tensors[0]) == _sharing(tensors[1])
        return compiled

    return check
