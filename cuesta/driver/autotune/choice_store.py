"""Keeps measured choices in the cache of compiled graphs. Imports no MLIR: looking a choice up needs none.

The key of an answer contains the question, the machine, its thread count and all versions, so each is measured once:
later graphs and processes find the answer there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from cuesta import cache_artifacts
from cuesta.cache import Hit, content_key, environment_key, open_cache
from cuesta.driver.autotune.stopwatch import winner
from cuesta.options import Options
from cuesta.policy.choices import Question
from cuesta.runtime.schema import report

#: Seconds for which times count that a busy machine measured.
_DOUBTFUL = 600.0

#: The format of an answer. Another format has other keys.
_FORMAT = "2"


@dataclass(frozen=True)
class Choice:
    """One measured choice."""

    kind: str
    about: str
    taken: str
    #: what the rule of thumb takes
    usual: str
    #: candidate → seconds of a call; candidates that cannot run have no entry
    times: dict[str, float]
    #: "measured", "remembered", or why neither
    source: str

    @staticmethod
    def measured(question: Question, times: Mapping[str, float], reliable: bool) -> Choice:
        """The choice that follows from times that this process has measured."""
        return Choice.of(question, times, "measured" if reliable else "measured while other programs ran")

    @staticmethod
    def of(question: Question, times: Mapping[str, float], source: str) -> Choice:
        """The choice that follows from these times."""
        taken = winner(times, question.candidates, question.worth)
        return Choice(question.kind, question.about, taken, question.candidates[0], dict(times), source)

    def reported(self) -> report.Choice:
        """The choice as the compile report keeps it."""
        return {
            "kind": self.kind,
            "about": self.about,
            "taken": self.taken,
            "usual": self.usual,
            "times": dict(self.times),
            "source": self.source,
        }


def choice_key(question: Question, options: Options, device: tuple[str, ...] = ()) -> str:
    """The key of the answer. `device` is what the answer depends on besides CPU, versions and question."""
    asked = (question.kind, question.key, *question.candidates)
    machine = (environment_key(), f"{torch.get_num_threads()} threads", f"opt_level {options.opt_level}")
    return content_key("choice", _FORMAT, *asked, *machine, *device)


def remembered(key: str, question: Question, options: Options) -> Choice | None:
    """The choice that is kept under `key`; None if there is none or the entry is not valid."""
    found = cache_artifacts.look_up(key, open_cache(options.cache_root))
    times = _read(found.payload, question) if isinstance(found, Hit) else None
    if not isinstance(found, Hit) or times is None:
        return None
    cache_artifacts.record(key, found.payload)
    return Choice.of(question, times, "remembered")


def keep(key: str, times: Mapping[str, float], options: Options, reliable: bool) -> None:
    """Keeps measured times, those that are not reliable for ten minutes: a later process measures again.

    Without a cache, only torch.compiler.save_cache_artifacts keeps them."""
    payload = json.dumps({"times": times, "until": None if reliable else time.time() + _DOUBTFUL}).encode()
    cache_artifacts.record(key, payload)
    open_cache(options.cache_root).put(key, payload)


def _read(payload: bytes, question: Question) -> dict[str, float] | None:
    """The times in an entry; None if they count no longer, or if the entry holds anything else."""
    try:
        kept = json.loads(payload)
        times, until = kept["times"], kept["until"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if until is not None and not (isinstance(until, float) and time.time() < until):
        return None
    if not isinstance(times, dict) or not times or not times.keys() <= set(question.candidates):
        return None
    return times if all(isinstance(t, float) and t > 0 for t in times.values()) else None
