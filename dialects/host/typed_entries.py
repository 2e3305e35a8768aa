"""Lists the overloads for which torch's C shim has a typed function, aoti_torch_DEVICE_NAME, with fresh results.

    i32 aoti_torch_cuda_NAME(handle, …, double, i32 (a bool), void** (an optional), …, handle* ret0, int64_t* ret4, …)

The dispatcher pairs an overload's results with the types of its schema in reverse order (torch 2.11 to 2.13 at least).
So it refuses results whose types do not read the same backwards, such as those of attention on GPUs. A typed function
has no such fault, is resolved by the loader instead of by name in each call, and does not consume its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cuesta.dialects.aten import find_overload
from cuesta.torch_private.ops import schema_of

#: Device → overloads, all in torch 2.11 and later. None of them takes lists, for which functions have another form.
_OVERLOADS: dict[str, frozenset[str]] = {
    "cpu": frozenset(
        {
            "aten._scaled_dot_product_flash_attention_for_cpu.default",
            "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
            "aten._scaled_dot_product_fused_attention_overrideable.default",
        }
    ),
    "cuda": frozenset(
        {
            "aten._scaled_dot_product_cudnn_attention.default",
            "aten._scaled_dot_product_cudnn_attention_backward.default",
            "aten._scaled_dot_product_efficient_attention.default",
            "aten._scaled_dot_product_flash_attention.default",
            "aten._scaled_dot_product_flash_attention_backward.default",
            "aten._scaled_dot_product_fused_attention_overrideable.default",
        }
    ),
}

_KINDS = {"TensorType": "tensor", "BoolType": "bool", "FloatType": "float", "IntType": "int", "SymIntType": "int"}


@dataclass(frozen=True)
class TypedEntry:
    """A function of the shim. A kind is tensor, bool, float or int. Arguments may also be tensor? or value?
    (optionals: a pointer to the value, or null)."""

    symbol: str
    arguments: tuple[str, ...]
    results: tuple[str, ...]


def typed_entry(overload: str, device: str) -> TypedEntry | None:
    """The typed function of an overload for a type of device; None if there is none."""
    if overload not in _OVERLOADS.get(device, ()):
        return None
    schema = schema_of(find_overload(overload))
    symbol = f"aoti_torch_{device}_{overload.split('.')[1]}"
    arguments = tuple(_kind(argument.type) for argument in schema.arguments)
    return TypedEntry(symbol, arguments, tuple(_kind(result.type) for result in schema.returns))


def dispatcher_mistakes_results(overload: str) -> bool:
    """Whether the dispatcher pairs a result with a wrong type."""
    kinds = [_KINDS.get(result.type.kind()) for result in schema_of(find_overload(overload)).returns]
    return kinds != kinds[::-1]


def has_typed_entry(overload: str) -> bool:
    """Whether there is a typed function on every device that has the overload at all."""
    return any(overload in overloads for overloads in _OVERLOADS.values())


def _kind(kind: Any) -> str:
    if kind.kind() == "OptionalType":
        return "tensor?" if kind.getElementType().kind() == "TensorType" else "value?"
    return _KINDS[kind.kind()]
