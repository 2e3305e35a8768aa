"""Who computes products of f32 on this CPU: the library behind ATen, or a kernel of ours, where `gemm` is "auto".

It depends on the machine: MKL has 1.1 times a kernel's speed on an Intel Xeon, and 0.4 times it on an AMD EPYC. So one
product of each kind that a graph has is timed, once a machine and number of threads, and the answer kept
(choice_store.py). What was decided is part of the graph's key in the cache, and an attribute of its module. Where it is
remembered, no MLIR is imported.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from cuesta.choices import Question
from cuesta.compile_report import GraphReport, choice_text
from cuesta.errors import CuestaError
from cuesta.frontend.choice_store import Choice, choice_key, keep, remembered
from cuesta.frontend.stopwatch import Stopwatch
from cuesta.options import Options
from cuesta.product_kinds import KERNEL, KINDS, LIBRARY, Kind, kind_of
from cuesta.targets import CPU, Target

log = logging.getLogger("cuesta")

_ATEN = torch.ops.aten
_PRODUCTS = (_ATEN.mm.default, _ATEN.addmm.default, _ATEN.bmm.default, _ATEN.baddbmm.default)

#: What this process knows, by the choice's key: without a cache it measures once.
_KNOWN: dict[str, Choice] = {}
#: The kernel is taken where it saves a tenth: a machine that does other work as well shows less than it is.
_WORTH = 0.9
#: Seconds for which each of the two is timed.
_BUDGET = 0.02


def decide(gm: torch.fx.GraphModule, options: Options, target: Target, report: GraphReport) -> dict[str, str]:
    """Kind of products → LIBRARY or KERNEL, for the kinds that a graph has, where that is measured; fills the report.

    It is not for another target, with options that say who computes products, on a CPU without AVX-512, or where torch
    is to use deterministic algorithms: there the clock decides nothing.
    """
    if target != CPU or options.gemm != "auto" or options.bitwise_eager or not is_measured():
        return {}
    chosen = [_choice(KINDS[name], options, report) for name in sorted(set(_kinds(gm)))]
    report.products = [asdict(choice) for choice in chosen]
    return {choice.about: choice.taken for choice in chosen}


def is_measured() -> bool:
    """Whether the clock may decide here."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and not torch.are_deterministic_algorithms_enabled()


def _kinds(gm: torch.fx.GraphModule) -> Iterator[str]:
    """The kinds of a graph's products of f32; a convolution whose window is one element may become one."""
    for node in gm.graph.nodes:
        values = [x.meta.get("val") for x in node.args if isinstance(x, torch.fx.Node)]
        if node.target in _PRODUCTS and all(map(_is_plain, values)):
            left, right = (x for x in values[-2:] if x is not None)
            yield kind_of(_is_turned(left), _is_turned(right))
        elif node.target is _ATEN.convolution.default and _is_of_one_element(values[1]):
            yield "across"
        elif node.target is _ATEN.convolution_backward.default and _is_of_one_element(values[2]):
            yield "along"  # of the images; the weight's gradient is the library's


def _is_plain(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x.layout == torch.strided


def _is_turned(matrix: torch.Tensor) -> bool:
    """Whether the elements of a column lie together, and not those of a row."""
    row, column = matrix.stride()[-2:]
    return isinstance(row, int) and row == 1 and column != 1


def _is_of_one_element(weight: Any) -> bool:
    return _is_plain(weight) and all(isinstance(n, int) and n == 1 for n in weight.shape[2:])


def _choice(kind: Kind, options: Options, report: GraphReport) -> Choice:
    question = Question("products", kind.name, str(kind), (LIBRARY, KERNEL), _WORTH)
    key = choice_key(question, options)
    if key not in _KNOWN:
        _KNOWN[key] = remembered(key, question, options) or _measured(key, question, kind, options, report)
        log.info("%s (%s)", choice_text(asdict(_KNOWN[key])), _KNOWN[key].source)
    return _KNOWN[key]


def _measured(key: str, question: Question, kind: Kind, options: Options, report: GraphReport) -> Choice:
    start = time.perf_counter()
    # As a program calls the library: nothing of torch's that is in force where a graph is compiled.
    with _disable_current_modes(), torch.no_grad(), torch.autocast("cpu", enabled=False):
        left, right = _matrix(kind.m, kind.k, kind.left_strides), _matrix(kind.k, kind.n, kind.right_strides)
        try:
            calls = {LIBRARY: lambda: torch.mm(left, right), KERNEL: _kernel(kind, left, right, options)}
            times = Stopwatch(budget=_BUDGET).race(calls)
        except CuestaError as problem:
            log.warning("products of f32 are the library's: a kernel of ours was not measured: %s", problem)
            return Choice.of(question, {}, f"not measured: {problem}")
    keep(key, times, options)
    report.times["measuring"] = report.times.get("measuring", 0.0) + time.perf_counter() - start
    return Choice.of(question, times, "measured")


def _matrix(rows: int, columns: int, strides: tuple[int, int]) -> torch.Tensor:
    """The same numbers each time; the user's generator is left where it is."""
    matrix = torch.empty_strided((rows, columns), strides, dtype=torch.float32, device="cpu")
    return matrix.normal_(generator=torch.Generator("cpu").manual_seed(0))


def _kernel(kind: Kind, left: torch.Tensor, right: torch.Tensor, options: Options) -> Callable[[], object]:
    """The call of a program that multiplies in a kernel. Raises CompileError where none is made."""
    # Here, as what is remembered needs no MLIR.
    from cuesta.choices import chosen_by
    from cuesta.dialects import make_context
    from cuesta.frontend import candidate_programs
    from cuesta.frontend.compile import lower_module
    from cuesta.frontend.loading import load
    from cuesta.sizes import assumptions

    plain = Options(gemm=KERNEL, opt_level=options.opt_level, cache=False, verify=False)
    with make_context(), assumptions(), chosen_by(None):
        module = candidate_programs.product_of_kind(kind)
        program = load(lower_module(module, plain, GraphReport("products")))
    return lambda: program([left, right])
