"""Shows the FX graphs of a capture: to logs, and as files of the dump beside the folders of the programs.

ir/000_dynamo_4711.py 001_joint_4711.py 002_saved_forward_4711.py 003_saved_backward_4711.py
"""

from __future__ import annotations

from collections.abc import Callable

from cuesta.driver.dump.logs import tell_stage
from cuesta.frontend.fx_passes.fx_pipeline import Observer
from cuesta.options import Options


def observer(options: Options) -> Observer:
    """The observer of FX stages under these options: it logs each graph and, with `dump`, writes it to a file."""
    root = options.dump
    if root is None:
        return tell_stage
    from cuesta.driver.dump.stages import write_graph  # a compile without a dump needs no MLIR yet

    def observe(stage: str, text: Callable[[], str]) -> None:
        tell_stage(stage, text)
        write_graph(root, stage, text())

    return observe
