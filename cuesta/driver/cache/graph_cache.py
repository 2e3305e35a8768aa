"""Loads one graph's program from the disk cache, and stores it there. Imports no MLIR: a hit needs none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from cuesta import cache_artifacts
from cuesta.cache import Cache, Hit, content_key, environment_key, open_cache
from cuesta.distributions import version_of
from cuesta.driver.loading import load
from cuesta.errors import ArtefactError
from cuesta.frontend.capture import tensor_cores
from cuesta.frontend.convention import Convention
from cuesta.frontend.graph_key import held_nodes
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.runtime.schema import convention as schema
from cuesta.runtime.schema.checks import Wrong, refusing
from cuesta.runtime.schema.metadata import read_artefact
from cuesta.sizes import number
from cuesta.targets import Target

#: How many programs of one graph (one for each set of sizes) torch may save.
_MOST_RECORDED = 32


@dataclass
class GraphCache:
    """The cache entry of one compile."""

    cache: Cache
    key: str

    @staticmethod
    def of(text: str, options: Options, target: Target, products: Mapping[str, str]) -> GraphCache:
        """The entry for a graph's text. `products` maps kinds of products to who computes them, as far as that was
        measured."""
        # Choices that were measured with one number of threads do not hold for another.
        measured = ""
        if options.max_autotune:
            measured = ", ".join([f"{torch.get_num_threads()} threads", *gpu_key(target)])
        settings = tensor_cores.settings() if target.device_type == "cuda" else ""
        machine = (environment_key(), _target_key(target), measured, settings)
        parts = (text, options.key(), str(sorted(products.items())), *machine)
        return GraphCache(open_cache(options.cache_root), content_key(*parts))

    def load(self, gm: torch.fx.GraphModule, report: GraphReport) -> tuple[Artefact, Executable, Convention] | None:
        """The cached program of a graph with its calling convention; None if there is no entry that loads. The report
        gets the outcome and the reason."""
        found = cache_artifacts.look_up(self.key, self.cache)
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
        if cache_artifacts.is_loaded(self.key):
            report.cache["reason"] = "the program came from torch.compiler.load_cache_artifacts"
            self.cache.put(self.key, found.payload)
        report.take_program(artefact.metadata["report"])
        # The key does not contain names: the graph in the cache may have had other names for its tensors.
        names = [str(node.target) for node in held_nodes(gm)]
        convention = replace(Convention.from_dict(artefact.metadata["convention"]), constants=names)
        return artefact, executable, convention

    def store(self, artefact: Artefact, report: GraphReport) -> None:
        payload = artefact.to_bytes()
        self._record(payload, report)
        if not self.cache.put(self.key, payload) and self.cache.failure not in (None, report.cache["reason"]):
            report.cache["reason"] += f"; not kept: {self.cache.failure}"

    def _record(self, payload: bytes, report: GraphReport) -> None:
        """Hands the program to torch.compiler.save_cache_artifacts. For a graph that is compiled for each set of sizes,
        only the first programs are handed over, because torch keeps them all in memory."""
        if report.sets is None or report.sets.compiled < _MOST_RECORDED:
            cache_artifacts.record(self.key, payload)


def check_calls_graph(convention: schema.Convention, gm: torch.fx.GraphModule) -> None:
    """Raises ArtefactError unless a calling convention fits a graph: the same tensors in the same order, and symbols at
    the same places. Machine code reads as much of a tensor as it was compiled for, whatever its size."""
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
    with refusing("convention"):
        if convention["tensor_arguments"] != tensors:
            raise Wrong(convention["tensor_arguments"], f"the graph has tensors at {tensors}").within(
                ".tensor_arguments"
            )
        if len(convention["constants"]) != (count := len(held_nodes(gm))):
            raise Wrong(convention["constants"], f"the graph holds {count} constant tensors").within(".constants")
        schema.check_arguments(convention, [v.dim() if isinstance(v, torch.Tensor) else None for v in values])
        for i, source in enumerate(convention["sources"]):
            value, dim = values[source["argument"]], source["dim"]
            found = value if dim is None else value.shape[dim]
            if not isinstance(found, (int, torch.SymInt)) or str(number(found)) != source["name"]:
                raise Wrong(source["name"], f"the graph has {found} there").within(f".sources[{i}].name")


def gpu_key(target: Target) -> tuple[str, ...]:
    """The parts of a measurement's key that are specific to a GPU; empty for other targets."""
    if target.kind != "cuda" or not torch.cuda.is_available():
        return ()
    return (_target_key(target), tensor_cores.settings(), torch.cuda.get_device_name(), str(torch.version.cuda))


def _target_key(target: Target) -> str:
    """The part of a key that is specific to the target. A GPU target's text names its compute capability; its code also
    depends on Triton's version."""
    if target.kind in ("cpu", "tt"):
        return str(target)
    triton = version_of("triton")
    return f"{target} no triton" if triton is None else f"{target} triton {triton}"
