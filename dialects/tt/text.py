"""Writes a kernel as the text that Triton reads: one module that holds one tt.func, in generic form."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.tt.ops import Func

#: Prefix of the attributes of kernels and arguments that only cuesta uses; a binary does not depend on them.
_OURS = "cuesta."


def kernel_text(function: ir.Operation) -> str:
    """The module that Triton's parser reads for the tt.func `function`, which is not changed.

    It has no locations, so that it depends on nothing but the computation and the kernel's name: it can be the key of a
    cache.
    """
    with function.location:
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            copy = function.clone()
        for name in [n for n in copy.attributes if n.startswith(_OURS)]:
            del copy.attributes[name]
        Func.arg_attrs.put(copy, [_without_ours(a) for a in Func.arg_attrs.of(copy)])
        return module.operation.get_asm(print_generic_op_form=True)


def _without_ours(attributes: ir.DictAttr) -> dict[str, ir.Attribute]:
    return {a.name: a.attr for a in attributes if not a.name.startswith(_OURS)}
