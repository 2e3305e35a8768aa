"""Serialises a compiled graph for torch's own caches, which load it in another process.

AOTAutogradCache keeps the result of AOTAutograd for a graph, so that a warm process does not trace again. Of our
program it keeps the key, under which our own cache has the code. `aot_compile`, and users who set
`torch._functorch.config.bundled_autograd_cache`, get the code itself:

    torch.compile(model, backend="cuesta").aot_compile(((x,), {})).save_compiled_function("model.pt")

Torch offers only the bundled form to backends other than Inductor, so we enable that setting while we compile.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cuesta import cache_artifacts
from cuesta.cache import Hit, content_key, environment_key, open_cache
from cuesta.driver.calling import Boxed, bind_values, takes_tensors_only
from cuesta.driver.dump.logs import profiled, tell_report
from cuesta.driver.loading import MadeProgram, load
from cuesta.errors import ArtefactError
from cuesta.frontend.capture.aot import is_trained
from cuesta.frontend.capture.autograd_key import keys_of_ours
from cuesta.frontend.convention import Convention
from cuesta.frontend.graph_key import attribute
from cuesta.frontend.source_lines import without_lines
from cuesta.options import Options
from cuesta.reports import compile_report
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.schema.metadata import read_artefact
from cuesta.torch_private.aot_autograd import (
    BypassAOTAutogradCache,
    SerializableAOTDispatchCompiler,
    should_bundle_autograd_cache,
    should_use_local_autograd_cache,
)
from cuesta.torch_private.configs import bundled_cache, repro_after
from cuesta.torch_private.fake_tensors import unset_fake_temporarily
from cuesta.torch_private.inductor import OutputCode
from cuesta.torch_private.unread_logs import graphs_are_wanted

#: The least number of nodes of a Dynamo graph for which keeping it pays in training. Torch's key and entry cost a
#: process 0.2 to 0.3 s for any graph, because torch reads its own sources for the key. Tracing a node, partitioning its
#: graphs and looking them up takes 10 ms or more (75 nodes of linear layers: a warm start of 0.9 s instead of 1.6 s; 15
#: nodes: 0.6 s both).
WORTH_KEEPING = 50
#: In inference a node costs this factor less (75 nodes 0.9 s either way, 300 nodes 2.0 s instead of 2.4 s).
_INFERENCE = 4

#: Attribute of a boxed callable: the KeptProgram to pickle in its place.
_KEPT = "_cuesta_kept"


class Keeping(enum.Enum):
    """What torch keeps of the programs of a graph."""

    NOTHING = "nothing"
    #: the key, under which our cache has the program
    KEY = "key"
    #: the code itself: torch was asked to bundle
    CODE = "code"


def keeping(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Keeping:
    """What torch keeps of the programs that are compiled for a Dynamo graph with these options."""
    if repro_after() == "aot":  # the minifier must see the graphs
        return Keeping.NOTHING
    if should_bundle_autograd_cache():
        return Keeping.CODE
    # A dump wants every stage. A recorded CUDA graph and packed weights are state beyond the program. A memory limit
    # wants both graphs at once.
    more = (options.cudagraphs and torch.cuda.is_available()) or options.freezing or options.memory_limit is not None
    if options.cache_root is None or options.dump or more or not should_use_local_autograd_cache():
        return Keeping.NOTHING
    least = WORTH_KEEPING if is_trained(example_inputs) else _INFERENCE * WORTH_KEEPING
    return Keeping.KEY if len(gm.graph.nodes) >= least else Keeping.NOTHING


@dataclass
class KeptProgram:
    """The pickled form of a program."""

    kind: str
    #: the root of our cache, and the key there
    root: Path | None
    key: str
    #: the code, where torch is to keep it
    artefact: bytes | None
    #: the tensors that the graph module held, on the CPU, and their devices. Torch pickles a program while fake tensors
    #: are made, where no tensor can be copied from a GPU.
    constants: list[torch.Tensor]
    devices: list[str]
    tensors_only: bool

    def load(self) -> Boxed:
        """Loads the program. Raises ArtefactError or DeviceError if it does not load here; torch then compiles."""
        artefact = read_artefact(self._code())
        taken = len(artefact.metadata["convention"]["constants"])
        if taken != len(self.constants):
            raise ArtefactError(f"torch kept {len(self.constants)} constant tensors; the program takes {taken}")
        if self.artefact is None:  # our cache has one entry for equal graphs from any source lines
            without_lines(artefact.metadata)
        executable = load(artefact)
        report = GraphReport(
            self.kind, cache={"hit": True, "reason": "torch kept the program with AOTAutograd's output"}
        )
        report.take_program(artefact.metadata["report"])
        compile_report.add(report)
        tell_report(report)
        run = profiled(executable, report, executable.metadata["steps"])
        with unset_fake_temporarily():
            constants = [value.to(device) for value, device in zip(self.constants, self.devices, strict=True)]
        return bind_values(run, Convention.from_dict(artefact.metadata["convention"]), constants, self.tensors_only)

    def _code(self) -> bytes:
        if self.artefact is not None:
            return self.artefact
        found = cache_artifacts.look_up(self.key, open_cache(self.root))
        if not isinstance(found, Hit):
            raise ArtefactError(f"torch kept the key of a program that is missing from cuesta's cache: {found.reason}")
        cache_artifacts.record(self.key, found.payload)
        return found.payload


@dataclass
class CuestaOutputCode(OutputCode):
    """A graph that cuesta compiled. `kept` is None if the graph is not a single program; torch then does not keep
    it."""

    call: Boxed | None
    kept: KeptProgram | None
    bundling: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._boxed_call = True  # torch's wrappers copy the instance's own dict

    def __call__(self, inputs: Sequence[Any]) -> Any:
        assert self.call is not None
        if self.bundling is not None:
            self._end_bundling()
        return self.call(inputs)  # type: ignore[arg-type]

    def bundle_until_called(self) -> None:
        """Re-enables the bundling setting until the first call, so that torch saves this graph.

        Torch compiles a backward graph at its first run, when the setting has ended already. It then compiles, saves
        and calls the graph in one thread; no other code of ours encloses these three steps.
        """
        self.bundling = bundled_cache()
        self.bundling.__enter__()

    def _end_bundling(self) -> None:
        self.bundling.__exit__(None, None, None)
        self.bundling = None

    def prepare_for_serialization(self) -> None:
        """Drops the loaded code. Raises BypassAOTAutogradCache for a graph that torch is not to keep."""
        if self.kept is None:
            raise BypassAOTAutogradCache(
                "the graph is not one program: it runs in pieces, for each set of sizes, or op by op"
            )
        self.call = self.bundling = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Loads the code, after unpickling."""
        if self.call is None:
            assert self.kept is not None
            self.call = self.kept.load()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Does nothing: the artefact holds its kernels itself."""


def serialisable(compile: Callable[..., Boxed]) -> SerializableAOTDispatchCompiler:
    """Wraps a compiler of ATen graphs so that torch can pickle its results."""

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
    """Attaches the pickled form of a program to its boxed callable."""
    held = [attribute(gm, name) for name in made.convention.constants]
    with unset_fake_temporarily():
        constants, devices = [value.to("cpu") for value in held], [str(value.device) for value in held]
    code = made.artefact().to_bytes() if keeping is Keeping.CODE else None
    kept = KeptProgram(kind, options.cache_root, made.key, code, constants, devices, takes_tensors_only(gm))
    setattr(boxed, _KEPT, kept)


@contextlib.contextmanager
def kept_by_torch(options: Options, keeping: Keeping) -> Iterator[None]:
    """Within this context AOTAutograd keeps its results under keys of cuesta's. Torch's own keys do not tell compilers
    apart, nor contain the switches that decide how an attention is traced."""
    if keeping is Keeping.NOTHING:
        yield
        return
    key = content_key(options.key(), environment_key(), repr(_switches()))
    # Keys into a cache at another root lead nowhere.
    place = str(options.cache_root) if keeping is Keeping.KEY else ""
    threads = str(torch.get_num_threads())  # measured choices depend on it (machine_trial.py, max_autotune)
    text = "with text" if graphs_are_wanted() else ""  # the text of the graphs, which a warm process logs
    with keys_of_ours(key, place, threads, text), bundled_cache():
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
