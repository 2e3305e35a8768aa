"""The "report" of an artefact's metadata: what compile_report.py shows of a program. Nothing is called by it."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from cuesta.runtime.schema.checks import whole


class Kernel(TypedDict):
    """A kernel, and on a GPU what a launch of it takes."""

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
    """Where a step comes from: a line of Python, and the node of the graph that made it, by its number in what is kept
    and by its name while it is compiled."""

    where: str
    node: NotRequired[Annotated[int, whole("a node's number is 0 or more")] | str]


class AtenCall(Origin):
    """An overload of ATen that is called, and why."""

    op: str
    reason: str
    route: str
    count: int


class Apart(TypedDict):
    """Two neighbours that stayed two kernels, and why."""

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
    """The limit that was asked for, and what keeps it."""

    limit: int
    by: str


class Instead(TypedDict):
    """Ops of a kernel that did not compile, which are called in ATen instead."""

    ops: list[str]
    error: str


class Report(TypedDict):
    """The part of a GraphReport that is kept."""

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
