"""Checks the description of a tensor in an artefact. Sizes and strides are in elements of the dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, TypedDict, cast

from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.schema.checks import Wrong, one_of
from cuesta.runtime.schema.numbers import SizeNumber, Stride

Dtype: TypeAlias = Annotated[str, one_of(tuple(DTYPES))]


class Tensor(TypedDict):
    """Sizes, strides and dtype."""

    sizes: list[SizeNumber]
    strides: list[Stride]
    dtype: Dtype


def plain(numbers: list[int | str]) -> list[int]:
    """Sizes or strides in a program whose sizes are all numbers, which the types of its metadata do not tell."""
    return cast(list[int], numbers)


def check_dims(tensor: Mapping[str, Any]) -> None:
    """Raises Wrong unless a tensor has a stride for each size."""
    sizes, strides = tensor["sizes"], tensor["strides"]
    if len(strides) != len(sizes):
        raise Wrong(strides, f"one for each of {len(sizes)} sizes is valid").within(".strides")
