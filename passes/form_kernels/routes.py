"""Chooses the route of a call into ATen: with a given output, through torch's C shim, or through Python."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects.aten import decode_call, find_overload
from cuesta.dialects.host.aten_abi import OUT_ENTRIES, PACKED_PRODUCT, dispatcher_words
from cuesta.sizes import Size
from cuesta.torch_private.ops import schema_of


def choose_route(overload: str, args: str, dtypes: Sequence[str], on_device: bool = True) -> str:
    """ "out", "shim" or "python", as the host dialect names the routes: the first that can take the call.

    "out" writes into memory of the host program, which is on the graph's device; `on_device` says whether the result
    is there too.
    """
    if overload == PACKED_PRODUCT or (on_device and overload in OUT_ENTRIES and _has_doubles(args)):
        return "out"
    # An overload without results runs for the error that it raises. Through Python it raises that very error; the shim
    # passes on only the message.
    raises = not schema_of(find_overload(overload)).returns
    return "python" if raises or dispatcher_words(overload, args) is None else "shim"


def _has_doubles(args: str) -> bool:
    """Whether alpha and beta are doubles, as the typed entries require: neither complex nor dependent on the sizes of a
    call."""
    _, keywords = decode_call(args, range(args.count('"%')))
    return not any(isinstance(value, (complex, Size)) for value in keywords.values())
