"""Describes a program whose memory is planned: for the runtime, and for the compile report."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.driver.autotune.kernel_traffic import kernel_functions, launch_bytes
from cuesta.errors import CompileError
from cuesta.lowering.host_to_llvm.describe import describe, origin
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.schema.program import Program
from cuesta.runtime.schema.report import Apart, AtenCall, Kernel

#: A forward graph keeps its arena between calls if the arena is at most this share of the bytes that the graph saves.
_SMALL_ARENA = 1 / 256


def describe_program(module: ir.Module, report: GraphReport) -> Program:
    """Describes the planned host function for the runtime, and fills in the kernels, calls and memory of the report."""
    hosts = [op for op in module.body.operations if op.operation.name == "func.func"]
    if len(hosts) != 1 or "cuesta.memory" not in hosts[0].attributes:
        raise CompileError(
            f"{len(hosts)} functions beside the kernels; one, with plan-memory's cuesta.memory, is valid"
        )
    (host,) = hosts
    functions = kernel_functions(module)
    kernels: dict[str, Kernel] = {}
    calls: dict[tuple[str, str], AtenCall] = {}
    for view in host.regions[0].blocks[0].operations:
        op = view.operation
        if op.name == "host.launch":
            name = list(op.attributes["kernel"].value)[-1]
            ops = [o.value for o in op.attributes["ops"]] if "ops" in op.attributes else []
            if name not in kernels:
                size = launch_bytes(op, functions.get(name))
                kernels[name] = {"name": name, "ops": ops, "uses": 0, "bytes": size}
            kernels[name]["uses"] += 1
        elif op.name == "host.aten":
            overload, reason = op.attributes["overload"].value, op.attributes["reason"].value
            route = op.attributes["route"].value
            new: AtenCall = {"op": overload, "reason": reason, "route": route, "count": 0, **origin(op)}
            calls.setdefault((overload, reason), new)["count"] += 1
    report.kernels, report.aten_calls = list(kernels.values()), list(calls.values())
    report.launches = sum(k["uses"] for k in report.kernels)
    memory = {a.name: a.attr.value for a in host.attributes["cuesta.memory"]}
    report.arena_bytes, report.peak_bytes, report.kept_bytes = memory["arena"], memory["peak"], memory["kept"]
    # An arena that is kept takes memory on top of all saved tensors between forward and backward, and on top of other
    # programs' arenas between calls.
    is_cheap = report.name != "forward" or report.arena_bytes <= _SMALL_ARENA * report.kept_bytes
    report.keeps_arena = is_cheap and report.memory_limit is None
    if "cuesta.remarks" in host.attributes:
        report.apart = [_apart(row) for row in host.attributes["cuesta.remarks"]]
    return {**describe(module), "keeps_arena": report.keeps_arena}


def _apart(remark: ir.DictAttr) -> Apart:
    return {
        "bytes": remark["bytes"].value,
        "consumer": remark["consumer"].value,
        "producer": remark["producer"].value,
        "reason": remark["reason"].value,
    }
