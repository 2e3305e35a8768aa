"""Judges a changed file: cuesta must refuse the file with an error of its own, or compute what it computed before.

Some sections define the program, so a change may give another program with other results. Even then it must not crash,
hang, run foreign code, exhaust memory or raise an error of Python's. What a change of a section may alter:

  machine code, kernels       changed raw only: changed code with valid checksums is other code
  program (metadata)          nothing: the code holds its digest, so a change is refused, or affects no result
  results, with the digest in the code recomputed
                              which part of its memory a result views; the result must be inside that memory
  convention, signature,      the order of arguments and results, the constants, the bytes of a weight
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
from cuesta.tools.fuzz.files.specimens import SPECIMENS, Refused, Specimen, specimen
from cuesta.torch_private import pytree

#: KB by which one change may grow the process: the specimens take a few MB.
_GROWTH = 300 << 10
#: Seconds that one change may take on a busy machine.
_SLOW = 30
#: Fields of a program that its machine code does not rely on, changed with the digest recomputed.
_RESTATED = ("results", "assumed", "keeps_arena")


def make_file(seed: int) -> str:
    """The name of a specimen and the changes of its file, as JSON; the same seed gives the same text."""
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
    return specimen(name).parts()


def _restated_changes(text: bytes, rng: random.Random) -> list[Change]:
    """Changes of the fields in `_RESTATED`."""
    program = json.loads(text)["metadata"]["program"]
    part = {key: program[key] for key in _RESTATED}
    changes = make_changes(lambda _: json.dumps(part).encode(), ["json"], rng)
    inside = [change for change in changes if change.get("path")]
    for change in inside:
        change["path"] = ["metadata", "program", *change["path"]]
    return inside


def check_file(text: str) -> Verdict:
    """The verdict on a text of `make_file`, with or without comment lines before it."""
    told = _read(text)
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
    """Loads and calls the specimen of a text without the changes."""
    told = _read(text)
    made = specimen(told["specimen"])
    made.load(made.data)()


def _read(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return content


def smaller_files(text: str) -> Iterator[str]:
    """The text without one of its changes."""
    told = json.loads(text)
    for number in range(len(told["changes"])):
        left = told["changes"][:number] + told["changes"][number + 1 :]
        yield json.dumps(told | {"changes": left}, indent=1)


def _most_memory() -> int:
    """The process's peak memory in KB."""
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
    return specimen(name).put_together(parts)


def _digest(text: bytes) -> bytes:
    """The digest of the program in a changed text; 32 zero bytes if the text has no readable program."""
    try:
        return digest_of(json.loads(text)["metadata"]["program"])
    except (ValueError, RecursionError, TypeError, KeyError):
        return bytes(32)


def _is_the_programs_own(changes: list[Change], restated: bool) -> bool:
    """Whether the changes may give another program, by the table in the module's docstring."""
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
    """The name of the check that refused a file, for the counts."""
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
