"""Runs rewrites of torch's FX graphs as pipelines, like those of MLIR passes further down."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from torch.fx import GraphModule, Node

from cuesta.options import Options

#: Takes the name of a stage, and a function that gives the text of a graph after the stage.
Observer: TypeAlias = Callable[[str, Callable[[], str]], None]


@dataclass
class TrainingStep:
    """The two graphs that a joint graph was split into.

    Results of the forward graph from position `outputs` on are saved; they are arguments of the backward graph, of the
    same names.
    """

    forward: GraphModule
    backward: GraphModule
    outputs: int

    @property
    def results(self) -> list[Any]:
        """What the forward graph returns: its own `outputs` results, then the saved values."""
        results: Any = self.forward.graph.output_node().args[0]
        return [*results]

    @results.setter
    def results(self, results: Sequence[Any]) -> None:
        self.forward.graph.output_node().args = (tuple(results),)

    @property
    def arguments(self) -> dict[str, Node]:
        """The arguments of the backward graph, by name."""
        return {node.name: node for node in self.backward.graph.find_nodes(op="placeholder")}

    def recompile(self) -> None:
        """Checks both graphs, and makes their code anew."""
        for module in (self.forward, self.backward):
            module.graph.lint()
            module.recompile()


def argument_for(source: Node, replaced: Node) -> Node:
    """An argument of the backward graph for a value of the forward graph, at the position of another."""
    with replaced.graph.inserting_before(replaced):
        made = replaced.graph.placeholder(source.name)
    made.meta = {**source.meta, **{k: v for k, v in replaced.meta.items() if k == "desc"}}
    return made


Subject = TypeVar("Subject", GraphModule, TrainingStep)


@dataclass(frozen=True)
class FxPass(Generic[Subject]):
    """A rewrite of graphs in place, which leaves what they compute as it was."""

    name: str
    rewrite: Callable[[Subject, Options], None]
    #: whether a compile with these options wants the pass
    wanted: Callable[[Options], bool] = lambda _: True


@dataclass(frozen=True)
class FxStage(Generic[Subject]):
    """Passes that run one after another at one point of the capture."""

    name: str
    #: what the stage works on, in words
    about: str
    passes: tuple[FxPass[Subject], ...]

    def run(self, subject: Subject, options: Options, observe: Observer | None = None) -> None:
        """Runs the passes that the options want, in place; `observe` is shown each graph afterwards."""
        for step in self.passes:
            if step.wanted(options):
                step.rewrite(subject, options)
        if observe is None:
            return
        if isinstance(subject, TrainingStep):
            observe(f"{self.name}_forward", functools.partial(readable, subject.forward))
            observe(f"{self.name}_backward", functools.partial(readable, subject.backward))
        else:
            observe(self.name, functools.partial(readable, subject))


def readable(gm: GraphModule) -> str:
    """A graph as Python code with the type, sizes and strides of each value."""
    return str(gm.print_readable(print_output=False, include_stride=True, include_device=True))
