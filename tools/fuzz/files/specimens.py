"""Makes the programs whose files the fuzzer changes: small, and together they use every kind of field of a file.

An `Entry` is a cache entry, read as a compile reads it; a `ProgramFile` is a file that `cuesta.load` reads.
"""

from __future__ import annotations

import atexit
import functools
import io
import shutil
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import cuesta
from cuesta.cache import Hit, open_cache
from cuesta.driver.cache.graph_cache import GraphCache
from cuesta.driver.calling import bind, bind_sized
from cuesta.driver.make_program import make_program
from cuesta.frontend.decompositions.table import decompositions
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import framed, unframed
from cuesta.runtime.sized import is_sized
from cuesta.tools.fuzz.failure import Unjudged
from cuesta.torch_private.pytree import tree_map

Tensor = torch.Tensor
#: The artefact's name in a program's file.
_CODE = "code"


class Refused(Exception):
    """The cache refuses an entry, so the graph would be compiled anew. The message says why."""


class Specimen(ABC):
    """A program, the bytes of its file, and what it computes."""

    data: bytes

    @abstractmethod
    def load(self, data: bytes) -> Callable[[], Any]:
        """A function that calls the program in `data` with the specimen's own inputs, and returns all results and all
        inputs that the program may have written. Raises a CuestaError, or Refused, for bytes that are refused."""

    @abstractmethod
    def parts(self) -> dict[str, bytes]:
        """The parts of the unchanged file, by name: an artefact's "json" and "objects"; of a program's file also
        "program.json", and "storage/0" and so on."""

    @abstractmethod
    def put_together(self, parts: dict[str, bytes]) -> bytes:
        """The file that consists of the given parts, with valid checksums."""

    @functools.cached_property
    def expected(self) -> Any:
        """The results of the unchanged program."""
        return self.load(self.data)()


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="cuesta-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _artefact_parts(artefact: bytes) -> dict[str, bytes]:
    text, objects, _ = unframed(artefact)  # a CPU's artefact has no separate section of kernels
    return {"json": text, "objects": objects}


# -- entries of the cache ---------------------------------------------------------------------
@dataclass(frozen=True)
class _Graph:
    """A graph from AOTAutograd, and the arguments of its call."""

    gm: torch.fx.GraphModule
    arguments: list[Any]


def _graph_of(function: Callable[..., Any], inputs: Sequence[Tensor], dynamic: bool) -> _Graph:
    found: list[_Graph] = []

    def keep(gm: torch.fx.GraphModule, _: object) -> Callable[[list[Any]], Any]:
        def call(arguments: list[Any]) -> Any:
            found.append(_Graph(gm, list(arguments)))
            return gm(*_copies(arguments))

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    from cuesta.torch_private.dynamo import aot_autograd

    backend = aot_autograd(fw_compiler=keep, decompositions=decompositions(), keep_inference_input_mutations=True)
    torch.compiler.reset()
    torch.compile(function, backend=backend, dynamic=dynamic)(*inputs)
    return found[0]


def _copies(values: Sequence[Any]) -> list[Any]:
    """The values, with each tensor copied to memory of its own."""
    return [
        torch.empty_strided(v.shape, v.stride(), dtype=v.dtype).copy_(v) if isinstance(v, Tensor) else v for v in values
    ]


class Entry(Specimen):
    """A cache entry of a compiled function."""

    def __init__(self, function: Callable[..., Any], *inputs: Tensor, dynamic: bool = False) -> None:
        self._graph = _graph_of(function, inputs, dynamic)
        root = Path(tempfile.mkdtemp(dir=_folder()))
        made = make_program(self._graph.gm, "inference", Options(cache_dir=root), GraphReport("inference"))
        made.artefact()
        self._cache = GraphCache(open_cache(root), made.key)
        (self._path,) = (path for path in root.rglob("*") if path.is_file())
        self.data = self._path.read_bytes()

    def parts(self) -> dict[str, bytes]:
        self._path.write_bytes(self.data)
        found = self._cache.cache.get(self._cache.key)
        assert isinstance(found, Hit)
        return _artefact_parts(found.payload)

    def put_together(self, parts: dict[str, bytes]) -> bytes:
        self._cache.cache.put(self._cache.key, framed(parts["json"], parts["objects"], b""))
        return self._path.read_bytes()

    def load(self, data: bytes) -> Callable[[], Any]:
        self._path.write_bytes(data)
        gm, report = self._graph.gm, GraphReport("inference")
        found = self._cache.load(gm, report)
        if found is None:
            raise Refused(report.cache["reason"])
        str(list(report.lines()))  # printing the report must work as well
        _, executable, convention = found
        if is_sized(executable.metadata):
            boxed = bind_sized(executable, convention, gm, _otherwise)
        else:
            boxed = bind(executable, convention, gm)

        def call() -> Any:
            arguments = _copies(self._graph.arguments)
            return boxed(list(arguments)), arguments

        return call


def _otherwise(arguments: list[Any]) -> list[Any]:
    raise Refused("the program does not admit these sizes")


# -- files of exported programs ---------------------------------------------------------------
class ProgramFile(Specimen):
    """A file that ExportedProgram.save wrote."""

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        dynamic_shapes: Any = None,
    ) -> None:
        self._args, self._kwargs = args, kwargs or {}
        with torch.no_grad():
            exported = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
        self._path = Path(tempfile.mkdtemp(dir=_folder())) / "program.cuesta"
        cuesta.compile(exported, options={"cache": False}).save(self._path)
        self.data = self._path.read_bytes()

    def parts(self) -> dict[str, bytes]:
        with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        return {**_artefact_parts(parts.pop(_CODE)), **parts}

    def put_together(self, parts: dict[str, bytes]) -> bytes:
        others = dict(parts)
        artefact = framed(others.pop("json"), others.pop("objects"), b"")
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
            for name, content in {_CODE: artefact, **others}.items():
                archive.writestr(name, content)
        return data.getvalue()

    def load(self, data: bytes) -> Callable[[], Any]:
        self._path.write_bytes(data)
        program = cuesta.load(self._path)

        def call() -> Any:
            args = tree_map(lambda v: v.clone() if isinstance(v, Tensor) else v, self._args)
            return program(*args, **self._kwargs), args, program.state_dict()

        return call


class _Model(nn.Module):
    """Model with tied weights, a buffer that a call writes, constants, keywords, containers, an input as output."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight
        self.norm = nn.BatchNorm1d(8)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, ids: Tensor, pair: tuple[Tensor, float], *, flag: bool, bias: Tensor) -> dict[str, Any]:
        self.calls.add_(1)
        x, factor = pair
        h = self.norm(self.embed(ids)) + bias
        return {"logits": self.head(h) * factor, "parts": [h[1:], flag], "same": x, "order": h.sort(0)[0]}


def _views(x: Tensor) -> tuple[Tensor, ...]:
    y = x.exp()
    return y, y[2:], y.t(), x[1:, None], y.view(torch.int32)[:, ::2]


def _written(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    x.add_(1)
    y[1:].mul_(x[:-1])
    return x[0], y.sum(0), y * torch.tensor([1.0, -2.0] * 4), x @ torch.tensor([[0.5] * 3] * 8)


def _routes(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    return x @ w, torch.linalg.qr(x)[0], torch.histc(x, 10), x.median(1)[1], torch.searchsorted(w[0].sort()[0], x)


def _sized(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    y = (x @ w).softmax(-1)
    return y, y[1:], x.sort(0)[0], torch.histc(x, 5), y.t()


@functools.cache
def specimen(name: str) -> Specimen:
    """The specimen of that name, made the same way each time. Raises Unjudged if making or running it fails."""
    torch.manual_seed(0)
    try:
        made = SPECIMENS[name]()
        made.expected  # noqa: B018  checks first that the unchanged program runs
    except Exception as problem:
        raise Unjudged(f"specimen {name}: {type(problem).__name__}: {problem}") from problem
    return made


def _square() -> Tensor:
    return torch.randn(8, 8)


SPECIMENS: dict[str, Callable[[], Specimen]] = {
    "plain": lambda: Entry(lambda x, w: (x @ w).relu().sum(1), _square(), _square()),
    "views": lambda: Entry(_views, _square()),
    "written": lambda: Entry(_written, _square(), _square()),
    "routes": lambda: Entry(_routes, _square(), _square()),
    "sized": lambda: Entry(_sized, torch.randn(8, 12), torch.randn(12, 6), dynamic=True),
    "model": lambda: ProgramFile(
        _Model().eval(),
        (torch.tensor([1, 5, 9, 1]), (torch.randn(3), 1.5)),
        {"flag": True, "bias": torch.randn(4, 8)},
    ),
    "sized file": lambda: ProgramFile(
        nn.Sequential(nn.Linear(8, 6), nn.Softmax(-1)),
        (torch.randn(5, 8),),
        dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},),
    ),
}
