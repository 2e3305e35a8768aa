"""Collapses equal layers: a run of steps that repeats immediately is kept once, with a count.

addmm gelu addmm norm addmm gelu addmm norm addmm gelu addmm norm   →   [addmm gelu addmm norm] x 3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuesta.driver.dump.picture.steps import Repeat, Step, Steps

#: The most steps of a run: longer runs do not repeat in models, and searching for them takes time.
_LONGEST = 256
#: The fewest steps of a run: shorter runs are often independent steps (the products of a query, a key and a value),
#: each of which is drawn.
_SHORTEST = 3


def collapse(program: Steps) -> Steps:
    """The program with each repeated run kept once."""
    signatures = [_signature(step) for step in program.steps]
    kept: list[Step] = []
    new_number: dict[int, int] = {}
    repeats: list[Repeat] = []
    position = 0
    while position < len(program.steps):
        length, count = _run_at(signatures, position)
        first = len(kept)
        for offset in range(length):
            step = program.steps[position + offset]
            step.count = count
            kept.append(step)
            for turn in range(count):
                equal = position + turn * length + offset
                new_number[equal] = first + offset
                step.results += program.steps[equal].results if turn else []
        if count > 1:
            repeats.append(Repeat(first, first + length - 1, count))
        position += length * count
    for number, step in enumerate(kept):
        # A later step reads the last of the equal steps, which the first stands for. A step keeps only edges from
        # earlier steps.
        edges = {new_number[source]: text for source, text in step.sources}
        step.sources = sorted((source, text) for source, text in edges.items() if source < number)
    return Steps(kept, repeats)


def _signature(step: Step) -> Any:
    sizes = tuple(text for _, text in step.sources)
    return (step.kind, step.name, step.ops, sizes, len(step.results))


def _run_at(signatures: Sequence[Any], start: int) -> tuple[int, int]:
    """The length of the run that begins at `start`, and its count: those that remove the most steps."""
    best = (1, 1)
    saved = 0
    for length in range(_SHORTEST, min(_LONGEST, (len(signatures) - start) // 2) + 1):
        if signatures[start] != signatures[start + length]:
            continue
        run = signatures[start : start + length]
        count = 1
        while signatures[start + count * length : start + (count + 1) * length] == run:
            count += 1
        if length * (count - 1) > saved:
            best, saved = (length, count), length * (count - 1)
    return best
