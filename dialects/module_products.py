"""Records who computes the products and attention of f32 in a module for a CPU, if that was measured: an attribute of
the top module.

    module attributes {cuesta.products = {across = "kernel", attention = "library"}} { … }

For a kind (`cuesta.policy.product_kinds`) that the attribute does not name, passes use a rule of thumb.
"""

from __future__ import annotations

from collections.abc import Mapping

from cuesta._mlir import ir

PRODUCTS = "cuesta.products"


def mark_products(module: ir.Module, measured: Mapping[str, str]) -> None:
    """Records who computes which kinds of products."""
    if measured:
        words = {kind: ir.StringAttr.get(who, module.context) for kind, who in measured.items()}
        module.operation.attributes[PRODUCTS] = ir.DictAttr.get(words, module.context)


def measured_products(module: ir.Module) -> dict[str, str]:
    """Kind of products → who computes them, for the kinds that the module names."""
    attributes = module.operation.attributes
    if PRODUCTS not in attributes:
        return {}
    return {named.name: named.attr.value for named in ir.DictAttr(attributes[PRODUCTS])}
