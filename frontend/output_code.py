"""A compiled graph as what torch's own caches keep of one: pickled without its native code's addresses, loaded again.

    torch.compile(model, backend="cuesta").aot_compile(((x,), {})).save_compiled_function("model.pt")
    torch._functorch.config.bundled_autograd_cache = True        # AOTAutograd's results are cached as well

Only under these does AOTAutograd hand its compilers' results on to be pickled; elsewhere they are plain callables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache, should_bundle_autograd_cache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from cuesta import compile_report
from cuesta.cache import content_key, environment_key
from cuesta.compile_report import GraphReport
from cuesta.frontend.calling import Boxed, Convention, bind_values, takes_tensors_only
from cuesta.frontend.graph_key import attribute
from cuesta.frontend.loading import load
from cuesta.frontend.make_program import MadeProgram
from cuesta.frontend.profiling import profiled
from cuesta.options import Options
from cuesta.runtime.artefact import Artefact

#: Attribute of a callable: what is pickled of it.
_KEPT = "_cuesta_kept"


@dataclass
class KeptProgram:
    """What is pickled of a program."""

    kind: str
    artefact: bytes
    #: the tensors that the graph module held
    constants: list[torch.Tensor]
    tensors_only: bool

    def load(self) -> Boxed:
        """The program, to be called. Raises ArtefactError or DeviceError where it does not load here."""
        artefact = Artefact.from_bytes(self.artefact)
        executable = load(artefact)
        report = GraphReport(self.kind, cache={"hit": True, "reason": "torch kept it with what AOTAutograd made"})
        report.take_program(artefact.metadata["report"])
        compile_report.add(report)
        run = profiled(executable, report, executable.metadata["steps"])
        return bind_values(
            run, Convention.from_dict(artefact.metadata["convention"]), self.constants, self.tensors_only
        )


@dataclass
class CuestaOutputCode(OutputCode):
    """A graph that cuesta compiled; `kept` is None where it is not one program, and then torch does not keep it."""

    call: Boxed | None
    kept: KeptProgram | None

    def __post_init__(self) -> None:
        self._boxed_call = True  # in the instance's own dict, which torch's wrappers copy

    def __call__(self, inputs: Sequence[Any]) -> Any:
        assert self.call is not None
        return self.call(inputs)  # type: ignore[arg-type]

    def prepare_for_serialization(self) -> None:
        """Forgets the loaded code. Raises BypassAOTAutogradCache for a graph that torch is not to keep."""
        if self.kept is None:
            raise BypassAOTAutogradCache("a graph that cuesta runs in pieces, by its sizes or op by op is not kept")
        self.call = None

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
        return CuestaOutputCode(boxed, getattr(boxed, _KEPT, None))

    return SerializableAOTDispatchCompiler(OutputCode, compile_to_output_code)


def remember(boxed: Boxed, kind: str, made: MadeProgram, gm: torch.fx.GraphModule) -> None:
    """Hangs what is pickled of a program on the callable that was made of it."""
    constants = [attribute(gm, name) for name in made.convention.constants]
    setattr(boxed, _KEPT, KeptProgram(kind, made.artefact.to_bytes(), constants, takes_tensors_only(gm)))


def wants_output_code() -> bool:
    """Whether torch will pickle what AOTAutograd's compilers return."""
    return bool(should_bundle_autograd_cache())


@contextlib.contextmanager
def keyed_for(options: Options) -> Iterator[None]:
    """Within it torch's keys of cached graphs are cuesta's own: its caches do not tell compilers apart."""
    tag = f"{torch.compiler.config.cache_key_tag} cuesta {content_key(options.key(), environment_key())}"
    with torch.compiler.config.patch(cache_key_tag=tag):  # type: ignore[attr-defined]
        yield
