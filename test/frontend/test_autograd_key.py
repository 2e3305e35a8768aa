"""torch's keys while cuesta's graphs are looked up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._inductor import codecache

from cuesta.frontend.autograd_key import keys_of_ours


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


def test_a_graph_that_torch_keeps_loads_no_code_generator_of_inductors(tmp_path: Path) -> None:
    program = """
import sys, torch
from torch._dynamo.utils import counters
from cuesta.frontend import output_code
output_code.WORTH_KEEPING = 0
f = torch.compile(lambda x: (x.sin() * x.sin()).sum(), backend="cuesta")
f(torch.randn(8))
print(sum(counters["aot_autograd"][f"autograd_cache_{what}"] for what in ("miss", "hit")))
print([name for name in sys.modules if name in ("torch._inductor.lowering", "torch._inductor.select_algorithm")])
"""
    environment = {**os.environ, "CUESTA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1", "[]"]
