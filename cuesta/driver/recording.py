"""Has a program on a GPU recorded as a CUDA graph, if the options ask for that and the program allows it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from cuesta.driver.calling import Run
from cuesta.frontend.convention import Convention
from cuesta.options import Options
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.cuda.cuda_graphs import RecordedProgram
from cuesta.runtime.cuda.cuda_recorder import recorder_of
from cuesta.runtime.executable import Executable


def recorded(
    program: Executable, convention: Convention, options: Options, report: GraphReport, static: Sequence[int]
) -> Run:
    """The program, wrapped to be recorded at its second call where it can be; the report says why where it cannot.

    `static` are positions of arguments whose memory stays at one address.
    """
    device = torch.device(program.metadata["device"])
    if not options.cudagraphs or device.type != "cuda":
        return program
    if program.metadata["elsewhere"]:
        report.cuda_graph = f"not recorded: the program has tensors on {', '.join(program.metadata['elsewhere'])}"
        return program

    def tell(outcome: str) -> None:
        report.cuda_graph = outcome

    if options.memory_limit is not None:
        report.cuda_graph = "not recorded: memory_limit does not allow for the copies of arguments"
        return program
    tell("will be recorded at the second call")
    chosen = convention.tensor_arguments
    # The graph module's own tensors come after the call's.
    count = len(chosen) + len(convention.constants)
    stay = [n for n in range(count) if n >= len(chosen) or chosen[n] in static]
    return RecordedProgram(program, program.metadata, stay, recorder_of(device), program.fits, tell)
