"""A compiled graph as what torch's own caches keep of one, to be loaded in another process.

AOTAutogradCache keeps what AOTAutograd made of a graph, so that a warm process does not trace again; of our program it
keeps the key, under which our own cache has the code. `aot_compile`, and who sets
`torch._functorch.config.bundled_autograd_cache`, gets the code itself:

    torch.compile(model, backend="cuesta").aot_compile(((x,), {})).save_compiled_function("model.pt")

Torch offers a backend that is not Inductor the bundled form alone, so that setting is made while we compile.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import (
    BypassAOTAutogradCache,
    should_bundle_autograd_cache,
    should_use_local_autograd_cache,
)
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from cuesta import cache_artifacts
from cuesta.cache import Hit, content_key, environment_key, open_cache
from cuesta.driver.calling import Boxed, bind_values, takes_tensors_only
from cuesta.driver.dump.logs import tell_report
from cuesta.driver.dump.profiling import profiled
from cuesta.driver.loading import load
from cuesta.driver.made_program import MadeProgram
from cuesta.errors import ArtefactError
from cuesta.frontend.capture.autograd_key import keys_of_ours
from cuesta.frontend.convention import Convention
from cuesta.frontend.graph_key import attribute
from cuesta.frontend.source_lines import without_lines
from cuesta.options import Options
from cuesta.reports import compile_report
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.schema.metadata import read_artefact
from cuesta.unread_logs import graphs_are_wanted

#: Nodes of a graph of Dynamo's from which on it is worth while in training. Torch's key and what it keeps cost a
#: process 0.2 to 0.3 s, whatever the graph: it reads torch's sources. To trace a node, to split its graphs and to find
#: them takes 10 ms or more (75 nodes of linear layers: a warm start of 0.9 s instead of 1.6 s; 15 nodes: 0.6 s both);
WORTH_KEEPING = 50
#: without gradients so many times less (75 nodes 0.9 s either way, 300 nodes 2.0 s instead of 2.4 s).
_INFERENCE = 4

#: Attribute of a callable: what is pickled of it.
_KEPT = "_cuesta_kept"


class Keeping(enum.Enum):
    """What torch is to keep of the programs of a graph."""

    NOTHING = "nothing"
    #: where our cache has it
    KEY = "key"
    #: the code itself: torch was asked to bundle
    CODE = "code"


def keeping(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Keeping:
    """What torch is to keep of what is compiled of a graph of Dynamo's with these options."""
    if torch._dynamo.config.repro_after == "aot":  # its graphs are to be seen
        return Keeping.NOTHING
    if should_bundle_autograd_cache():
        return Keeping.CODE
    # A dump wants every stage; a recorded CUDA graph and packed weights are more than a program; a limit wants both
    # graphs at once.
    more = (options.cudagraphs and torch.cuda.is_available()) or options.freezing or options.memory_limit is not None
    if options.cache_root is None or options.dump or more or not should_use_local_autograd_cache():
        return Keeping.NOTHING
    trains = torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs)
    least = WORTH_KEEPING if trains else _INFERENCE * WORTH_KEEPING
    return Keeping.KEY if len(gm.graph.nodes) >= least else Keeping.NOTHING


@dataclass
class KeptProgram:
    """What is pickled of a program."""

    kind: str
    #: its place in our cache
    root: Path | None
    key: str
    #: the code, where torch is to keep it
    artefact: bytes | None
    #: the tensors that the graph module held
    constants: list[torch.Tensor]
    tensors_only: bool

    def load(self) -> Boxed:
        """The program, to be called. Raises ArtefactError or DeviceError where it does not load here; torch then
        compiles."""
        artefact = read_artefact(self._code())
        if len(artefact.metadata["convention"]["constants"]) != len(self.constants):
            raise ArtefactError("torch has kept another count of tensors than the program takes")
        if self.artefact is None:  # whose code our cache has for equal graphs of any lines
            without_lines(artefact.metadata)
        executable = load(artefact)
        report = GraphReport(self.kind, cache={"hit": True, "reason": "torch kept it with what AOTAutograd made"})
        report.take_program(artefact.metadata["report"])
        compile_report.add(report)
        tell_report(report)
        run = profiled(executable, report, executable.metadata["steps"])
        return bind_values(
            run, Convention.from_dict(artefact.metadata["convention"]), self.constants, self.tensors_only
        )

    def _code(self) -> bytes:
        if self.artefact is not None:
            return self.artefact
        given = cache_artifacts.loaded(self.key)
        found = open_cache(self.root).get(self.key) if given is None else Hit(given)
        if not isinstance(found, Hit):
            raise ArtefactError(f"torch has kept a program that cuesta's cache has not: {found.reason}")
        cache_artifacts.record(self.key, found.payload)
        return found.payload


@dataclass
class CuestaOutputCode(OutputCode):
    """A graph that cuesta compiled; `kept` is None where it is not one program, and then torch does not keep it."""

    call: Boxed | None
    kept: KeptProgram | None
    bundling: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._boxed_call = True  # in the instance's own dict, which torch's wrappers copy

    def __call__(self, inputs: Sequence[Any]) -> Any:
        assert self.call is not None
        if self.bundling is not None:
            self._end_bundling()
        return self.call(inputs)  # type: ignore[arg-type]

    def bundle_until_called(self) -> None:
        """To be kept by torch although the setting has ended that this takes.

        A backward graph is compiled as it is first run: torch compiles, saves, calls, in one thread, and nothing else
        of ours stands around these three.
        """
        self.bundling = torch._functorch.config.patch(bundled_autograd_cache=True)
        self.bundling.__enter__()

    def _end_bundling(self) -> None:
        self.bundling.__exit__(None, None, None)
        self.bundling = None

    def prepare_for_serialization(self) -> None:
        """Forgets the loaded code. Raises BypassAOTAutogradCache for a graph that torch is not to keep."""
        if self.kept is None:
            raise BypassAOTAutogradCache("a graph that cuesta runs in pieces, by its sizes or op by op is not kept")
        self.call = self.bundling = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Loads the code, after unpickling."""
        if self.call is None:
            assert self.kept is not None
            self.call = self.kept.load()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing: the artefact holds its kernels itself."""


def serialisable(compile: Callable[..., Boxed]) -> SerializableAOTDispatchCompiler:
    """A compiler of ATen graphs whose results torch can pickle."""

    def compile_to_output_code(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> CuestaOutputCode:
        boxed = compile(gm, example_inputs)
        code = CuestaOutputCode(boxed, getattr(boxed, _KEPT, None))
        if code.kept is not None and not should_bundle_autograd_cache():
            code.bundle_until_called()
        return code

    return SerializableAOTDispatchCompiler(OutputCode, compile_to_output_code)


def remember(
    boxed: Boxed, kind: str, made: MadeProgram, gm: torch.fx.GraphModule, options: Options, keeping: Keeping
) -> None:
    """Hangs what is pickled of a program on the callable that was made of it."""
    constants = [attribute(gm, name) for name in made.convention.constants]
    code = made.artefact().to_bytes() if keeping is Keeping.CODE else None
    kept = KeptProgram(kind, options.cache_root, made.key, code, constants, takes_tensors_only(gm))
    setattr(boxed, _KEPT, kept)


@contextlib.contextmanager
def kept_by_torch(options: Options, keeping: Keeping) -> Iterator[None]:
    """Within it AOTAutograd keeps what it makes, under keys that are cuesta's own: its own do not tell compilers
    apart, nor see what decides how an attention is traced."""
    if keeping is Keeping.NOTHING:
        yield
        return
    key = content_key(options.key(), environment_key(), repr(_switches()))
    # Keys of another folder's programs lead nowhere.
    place = str(options.cache_root) if keeping is Keeping.KEY else ""
    threads = str(torch.get_num_threads())  # with which choices were measured (machine_trial.py, max_autotune)
    text = "with text" if graphs_are_wanted() else ""  # which a warm process logs
    with keys_of_ours(key, place, threads, text), torch._functorch.config.patch(bundled_autograd_cache=True):
        yield


def _switches() -> list[bool]:
    cuda = torch.backends.cuda
    return [
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        torch.backends.mkldnn.enabled,
        torch.is_inference_mode_enabled(),
    ]
