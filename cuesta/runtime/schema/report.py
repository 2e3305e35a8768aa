"""Describes the "report" of an artefact's metadata, which compile_report.py shows. Calls do not use the report."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from cuesta.runtime.schema.checks import whole


class Kernel(TypedDict):
    """A kernel. On a GPU, also the data of its launches."""

    name: str
    ops: list[str]
    uses: int
    bytes: int
    grid: NotRequired[list[int | str]]
    warps: NotRequired[int]
    shared: NotRequired[int]
    registers: NotRequired[int | None]
    spills: NotRequired[int | None]
    halvings: NotRequired[int]


class Origin(TypedDict):
    """Where a step comes from: a line of Python, and a node of the graph. The node is a number in a stored artefact and
    a name during compilation."""

    where: str
    node: NotRequired[Annotated[int, whole("a node's number is 0 or more")] | str]


class AtenCall(Origin):
    """An overload of ATen that the program calls, and why."""

    op: str
    reason: str
    route: str
    count: int


class Apart(TypedDict):
    """Two neighbouring kernels that were not fused, and why."""

    producer: str
    consumer: str
    reason: str
    bytes: int


class Choice(TypedDict):
    """A choice that max_autotune made."""

    kind: str
    about: str
    taken: str
    usual: str
    times: dict[str, float]
    source: str


class MemoryLimit(TypedDict):
    """The memory limit that was requested, and what keeps the program within it."""

    limit: int
    by: str


class Instead(TypedDict):
    """The ops of a kernel that did not compile. The program calls ATen for them instead."""

    ops: list[str]
    error: str


class Report(TypedDict):
    """The part of a GraphReport that is stored."""

    kernels: list[Kernel]
    launches: int
    aten_calls: list[AtenCall]
    arena_bytes: int
    keeps_arena: bool
    peak_bytes: int
    kept_bytes: int
    memory_limit: MemoryLimit | None
    apart: list[Apart]
    choices: list[Choice]
    instead: list[Instead]
