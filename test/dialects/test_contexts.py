"""Contexts with cuesta's dialects: one that is given back is the next."""

from __future__ import annotations

from cuesta import dialects
from cuesta._mlir import ir
from cuesta.dialects import give_back, make_context

_MODULE = """
func.func @graph(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "cuesta.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def test_one_that_is_given_back_serves_once_more(monkeypatch) -> None:
    monkeypatch.setattr(dialects, "_SPARE", [])
    first = make_context()
    for _ in range(2):
        with first:
            dialects.verify(ir.Module.parse(_MODULE), "test")
        give_back(first)
        assert make_context() is first
    assert make_context() is not first
