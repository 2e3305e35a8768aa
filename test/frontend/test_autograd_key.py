"""torch's keys while cuesta's graphs are looked up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from torch._inductor import codecache

from cuesta.frontend.capture import autograd_key
from cuesta.frontend.capture.autograd_key import keys_of_ours


def tag(*parts: str) -> str:
    with keys_of_ours(*parts):
        return torch.compiler.config.cache_key_tag


def test_what_is_cuestas_is_in_the_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tag("a") == tag("a") != tag("b")
    monkeypatch.setattr(torch.version, "cuda", "99.9")
    other = tag("a")
    monkeypatch.undo()
    assert tag("a") != other


def test_what_is_inductors_is_as_before_afterwards() -> None:
    register, system, passes = (
        codecache.init_backend_registration,
        codecache.CacheBase.get_system,
        codecache.custom_backend_passes,
    )
    with pytest.raises(KeyError), keys_of_ours("a"):
        assert codecache.init_backend_registration is not register
        assert codecache.CacheBase.get_system is not system
        raise KeyError
    assert codecache.init_backend_registration is register
    assert codecache.CacheBase.get_system is system
    assert codecache.custom_backend_passes is passes


def test_torchs_sources_are_read_where_one_has_changed_since_they_were_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = autograd_key._torch_key.__wrapped__
    monkeypatch.setattr(autograd_key, "_READ_ALL", lambda: b"read")
    monkeypatch.setattr(autograd_key, "_changes", lambda folder: iter([0]))
    assert key() == key() != b"read"
    monkeypatch.setattr(autograd_key, "_changes", lambda folder: iter([0, 1 << 62]))
    assert key() == b"read"


def test_a_graph_that_torch_keeps_loads_no_code_generator_of_inductors(
    tmp_path: Path, forked: Callable[..., CompletedProcess[str]]
) -> None:
    program = """
import sys, torch
from torch._dynamo.utils import counters
from cuesta.driver.cache import output_code
output_code.WORTH_KEEPING = 0
f = torch.compile(lambda x: (x.sin() * x.sin()).sum(), backend="cuesta")
f(torch.randn(8))
print(sum(counters["aot_autograd"][f"autograd_cache_{what}"] for what in ("miss", "hit")))
parts = ("lowering", "select_algorithm", "scheduler")
print([part for part in parts if f"torch._inductor.{part}" in sys.modules])
"""
    environment = {**os.environ, "CUESTA_CACHE_DIR": str(tmp_path)}
    found = forked(program, environment=environment)
    assert found.stdout.split() == ["1", "[]"], found.stderr


def test_what_asks_for_the_generator_of_python_code_gets_it(forked: Callable[..., CompletedProcess[str]]) -> None:
    program = """
import sys
from cuesta.frontend.capture.autograd_key import keys_of_ours
name = "torch._inductor.codegen.wrapper"
with keys_of_ours("a"):
    from torch._inductor.codegen.wrapper import user_defined_triton_kernel_transitive_closure_source_code as source
    assert sys.modules[name].__spec__ is None
    try:
        source(None)
    except Exception as error:
        print(type(error).__name__)
    assert sys.modules[name].__spec__ is not None
with keys_of_ours("a"):
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
print(PythonWrapperCodegen.__module__, name in sys.modules)
"""
    found = forked(program)
    assert found.stdout.split()[-2:] == ["torch._inductor.codegen.wrapper", "True"], found.stderr
