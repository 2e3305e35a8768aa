"""The disk cache of compiled graphs, seen from one compile. Imports no MLIR: a hit needs none."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from cuesta import cache_artifacts
from cuesta.cache import Cache, Hit, content_key, environment_key, open_cache
from cuesta.driver.loading import load
from cuesta.errors import ArtefactError
from cuesta.frontend.capture import tensor_cores
from cuesta.frontend.convention import Convention
from cuesta.frontend.graph_key import held_nodes
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.runtime.schema.checks import Wrong, refusing
from cuesta.runtime.schema.convention import check_arguments
from cuesta.runtime.schema.metadata import read_artefact
from cuesta.sizes import number
from cuesta.targets import Target

#: Programs of one graph, for as many sets of sizes, that torch may save.
_MOST_RECORDED = 32


@dataclass
class GraphCache:
    """The disk cache of one compile: what the key was, and what to say about it."""

    cache: Cache
    key: str

    @staticmethod
    def of(text: str, options: Options, target: Target, products: Mapping[str, str]) -> GraphCache:
        """Of a graph's text; `products` is who computes which kinds of products, as far as that was measured."""
        # What was measured with some threads is not the choice for others.
        measured = ""
        if options.max_autotune:
            measured = ", ".join([f"{torch.get_num_threads()} threads", *gpu_key(target)])
        settings = tensor_cores.settings() if target.device_type == "cuda" else ""
        machine = (environment_key(), _target_key(target), measured, settings)
        parts = (text, options.key(), str(sorted(products.items())), *machine)
        return GraphCache(open_cache(options.cache_root), content_key(*parts))

    def load(self, gm: torch.fx.GraphModule, report: GraphReport) -> tuple[Artefact, Executable, Convention] | None:
        """The cached program of a graph and how it is called, None where there is none that loads; the report says
        which and why."""
        given = cache_artifacts.loaded(self.key)
        found = self.cache.get(self.key) if given is None else Hit(given)
        if not isinstance(found, Hit):
            report.cache = {"hit": False, "reason": found.reason}
            return None
        try:
            artefact = read_artefact(found.payload)
            check_calls_graph(artefact.metadata["convention"], gm)
            executable = load(artefact, self.cache)
        except ArtefactError as problem:
            report.cache = {"hit": False, "reason": f"the entry does not load: {problem}"}
            return None
        report.cache = {"hit": True, "reason": "the same graph was compiled before"}
        self._record(found.payload, report)
        if given is not None:
            report.cache["reason"] = "torch.compiler.load_cache_artifacts brought it"
            self.cache.put(self.key, given)
        report.take_program(artefact.metadata["report"])
        # Names are no part of the key: an equal graph may have given its tensors others.
        names = [str(node.target) for node in held_nodes(gm)]
        convention = replace(Convention.from_dict(artefact.metadata["convention"]), constants=names)
        return artefact, executable, convention

    def store(self, artefact: Artefact, report: GraphReport) -> None:
        payload = artefact.to_bytes()
        self._record(payload, report)
        if not self.cache.put(self.key, payload) and self.cache.failure not in (None, report.cache["reason"]):
            report.cache["reason"] += f"; not kept: {self.cache.failure}"

    def _record(self, payload: bytes, report: GraphReport) -> None:
        """Hands the program to torch.compiler.save_cache_artifacts; of a graph that is compiled for each set of sizes
        the first ones, as torch keeps in memory all that it is handed."""
        if report.sets is None or report.sets.compiled < _MOST_RECORDED:
            cache_artifacts.record(self.key, payload)


def check_calls_graph(convention: Mapping[str, Any], gm: torch.fx.GraphModule) -> None:
    """Raises ArtefactError unless a convention is that of a graph: it takes the tensors that the graph has, in their
    order, and symbols from where the graph has them. Machine code reads as much of a tensor as it was compiled for."""
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
    with refusing("convention"):
        if convention["tensor_arguments"] != tensors:
            raise Wrong(convention["tensor_arguments"], f"the graph's are {tensors}").within(".tensor_arguments")
        if len(convention["constants"]) != (count := len(held_nodes(gm))):
            raise Wrong(convention["constants"], f"the graph holds {count} tensors").within(".constants")
        check_arguments(convention, [v.dim() if isinstance(v, torch.Tensor) else None for v in values])
        for i, source in enumerate(convention["sources"]):
            value, dim = values[source["argument"]], source["dim"]
            found = value if dim is None else value.shape[dim]
            if not isinstance(found, (int, torch.SymInt)) or str(number(found)) != source["name"]:
                raise Wrong(source["name"], f"the graph has {found} there").within(f".sources[{i}].name")


def gpu_key(target: Target) -> tuple[str, ...]:
    """What measurements on a GPU depend on beside the question; nothing for another target."""
    if target.kind != "cuda" or not torch.cuda.is_available():
        return ()
    return (_target_key(target), tensor_cores.settings(), torch.cuda.get_device_name(), str(torch.version.cuda))


def _target_key(target: Target) -> str:
    """What shapes a target's code beside what shapes all: a GPU's name has its capability; Triton makes the code."""
    if target.kind in ("cpu", "tt"):
        return str(target)
    try:
        return f"{target} triton {importlib.metadata.version('triton')}"
    except importlib.metadata.PackageNotFoundError:
        return f"{target} no triton"
