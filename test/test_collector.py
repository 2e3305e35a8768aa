"""The collector of cyclic garbage is held back while a graph is compiled, and no longer."""

from __future__ import annotations

import gc

import pytest
import torch

from cuesta.collector import held_back


def test_blocks_nest_and_the_last_lets_go() -> None:
    with held_back():
        with held_back():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_lets_go() -> None:
    with pytest.raises(KeyError), held_back():
        raise KeyError
    assert gc.isenabled()


def test_who_has_no_collector_gets_none() -> None:
    gc.disable()
    try:
        with held_back():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_compiled_function_is_called_with_the_collector_at_work() -> None:
    assert torch.compile(lambda x: x.exp(), backend="cuesta")(torch.zeros(2)).tolist() == [1, 1]
    assert gc.isenabled()
