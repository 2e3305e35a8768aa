"""Judges a changed file: it is refused by an error of cuesta's, or computes what it did before.

What counts as the program itself may make it another program, which computes something else; it must not crash, hang,
run foreign code, take memory without end or end in an error of Python's. That is, by section:

  machine code, kernels       changed raw only: with its checksums redone changed code is other code
  program (metadata)          nothing: the code states its digest, so that a change is refused, or shows in no result
  results, with the digest in the code redone
                              which part of its memory a result is; it must lie inside that memory
  convention, signature,      which argument and which result is which, what constants are, which bytes are a weight's
  weights, and their storages
"""

from __future__ import annotations

import builtins
import functools
import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from cuesta.errors import CuestaError
from cuesta.runtime.interface import digest_of
from cuesta.tools.fuzz.failure import Failure, Note, Verdict, kind_of
from cuesta.tools.fuzz.files.file_changes import (
    FOREIGN,
    MARK,
    Change,
    apply_to_bytes,
    apply_to_json,
    make_changes,
    spelled,
)
from cuesta.tools.fuzz.files.file_parts import parts_of, put_together
from cuesta.tools.fuzz.files.specimens import SPECIMENS, Refused, Specimen, specimen

#: KB that the process may grow by, for one change: the specimens take a few MB.
_GROWTH = 300 << 10
#: Seconds that one change may take, on a machine that others use.
_SLOW = 30
#: The fields of a program that its machine code does not rely on, and that a change with the digest redone may change.
_RESTATED = ("results", "assumed", "keeps_arena")


def make_file(seed: int) -> str:
    """A specimen's name and changes of its file, as text; the same ones for the same number."""
    rng = random.Random(seed)
    name = rng.choice(list(SPECIMENS))
    parts = _parts(name)
    if restated := rng.random() < 0.2:
        changes = _restated_changes(parts["json"], rng)
    else:
        changes = make_changes(parts.__getitem__, [part for part in parts if part != "objects"], rng)
    return json.dumps({"specimen": name, "restated": restated, "changes": changes}, indent=1)


@functools.cache
def _parts(name: str) -> dict[str, bytes]:
    return parts_of(specimen(name))


def _restated_changes(text: bytes, rng: random.Random) -> list[Change]:
    """Changes of fields that the code does not rely on."""
    program = json.loads(text)["metadata"]["program"]
    part = {key: program[key] for key in _RESTATED}
    changes = make_changes(lambda _: json.dumps(part).encode(), ["json"], rng)
    inside = [change for change in changes if change.get("path")]
    for change in inside:
        change["path"] = ["metadata", "program", *change["path"]]
    return inside


def check_file(text: str) -> Verdict:
    """The verdict on a text of `make_file`, which lines of comment may stand before."""
    told = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    changed = specimen(told["specimen"])
    data = _changed(told["specimen"], told["changes"], told["restated"])
    before, started = _most_memory(), time.monotonic()
    found = _judged(changed, data, _is_the_programs_own(told["changes"], told["restated"]))
    if getattr(builtins, MARK, None) is not None:
        delattr(builtins, MARK)
        return Failure("foreign code ran", "a text of the file was run as Python")
    if imported := [name for name in FOREIGN if name in sys.modules]:
        return Failure("a module was imported", f"the file named {imported[0]}")
    if (grown := _most_memory() - before) > _GROWTH:
        return Failure("memory grows", f"{grown >> 10} MB more than before")
    if (taken := time.monotonic() - started) > _SLOW:
        return Failure("slow", f"{taken:.0f} s")
    return found


def run_unchanged(text: str) -> None:
    """Loads and calls the specimen as it is."""
    told = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    made = specimen(told["specimen"])
    made.load(made.data)()


def smaller_files(text: str) -> Iterator[str]:
    """The same with a change less."""
    told = json.loads(text)
    for number in range(len(told["changes"])):
        left = told["changes"][:number] + told["changes"][number + 1 :]
        yield json.dumps(told | {"changes": left}, indent=1)


def _most_memory() -> int:
    """KB that the process has taken at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _changed(name: str, changes: list[Change], restated: bool) -> bytes:
    raw = [change for change in changes if change["part"] == ""]
    if raw:
        data = specimen(name).data
        for change in raw:
            data = apply_to_bytes(data, change)
        return data
    parts = dict(_parts(name))
    for change in changes:
        if change["part"] in parts and "path" not in change:
            parts[change["part"]] = apply_to_bytes(parts[change["part"]], change)
    by_field = [change for change in changes if "path" in change]
    for part in {change["part"] for change in by_field}:
        document = json.loads(parts[part])
        before = digest_of(document["metadata"]["program"]) if restated else b""
        for change in by_field:
            document = apply_to_json(document, change) if change["part"] == part else document
        parts[part] = spelled(document)
        if restated:
            parts["objects"] = parts["objects"].replace(before, _digest(parts[part]))
    return put_together(specimen(name), parts)


def _digest(text: bytes) -> bytes:
    """The digest that the code would state of a changed program; nothing of one that has none."""
    try:
        return digest_of(json.loads(text)["metadata"]["program"])
    except (ValueError, RecursionError, TypeError, KeyError):
        return bytes(32)


def _is_the_programs_own(changes: list[Change], restated: bool) -> bool:
    """Whether the changes may make another program of it, by the table above."""
    return restated or any(
        change["part"] == "program.json"
        or change["part"].startswith("storage/")
        or "convention" in change.get("path", ["convention"])[:2]
        for change in changes
        if change["part"] != ""
    )


def _judged(changed: Specimen, data: bytes, may_differ: bool) -> Verdict:
    try:
        call = changed.load(data)
    except (Refused, CuestaError) as refusal:
        return Note(f"refused: {_by(refusal)}")
    except Exception as problem:
        return Failure(f"loading raises {kind_of(problem)}", repr(problem))
    try:
        found = call()
    except (Refused, CuestaError) as refusal:
        return Note(f"the call is refused: {type(refusal).__name__}")
    except Exception as problem:
        return Failure(f"the call raises {kind_of(problem)}", repr(problem))
    if outside := [t for t in pytree.tree_leaves(found) if isinstance(t, torch.Tensor) and not _is_inside(t)]:
        return Failure("foreign memory", f"a result of sizes {list(outside[0].shape)} reaches past its storage")
    try:
        torch.testing.assert_close(found, changed.expected, equal_nan=True, check_stride=True)
    except (AssertionError, ValueError, TypeError) as difference:
        if may_differ:
            return Note("another program")
        return Failure("wrong answer", str(difference))
    return Note("right")


def _is_inside(tensor: torch.Tensor) -> bool:
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + last + 1) * tensor.itemsize
    return not tensor.numel() or end <= tensor.untyped_storage().nbytes()


def _by(refusal: Exception) -> str:
    """What refused a file, for the count."""
    told = str(refusal)
    for words, name in _REFUSERS.items():
        if words in told:
            return name
    return "the schema"


_REFUSERS: dict[str, Any] = {
    "checksum differs": "a checksum",
    "is damaged": "the container",
    "damaged": "the container",
    "machine code beside it": "the code's own digest",
    "no entry": "the cache",
}
