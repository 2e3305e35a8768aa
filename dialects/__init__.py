"""Makes MLIR contexts with cuesta's dialects, and verifies modules."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects import aten, host, kernel_attention, kernel_scatter, tt
from cuesta.dialects.cuesta import VERIFIERS, Cuesta
from cuesta.dialects.open_op import OPEN_OPS
from cuesta.dialects.top_module import known_sizes
from cuesta.errors import VerifyError

__all__ = [
    "aten",
    "host",
    "kernel_attention",
    "kernel_scatter",
    "make_context",
    "maker",
    "ops_named",
    "problem_of",
    "tt",
    "verify",
    "walk",
]


#: MLIR's own dialects whose ops are built in Python. Parsers and passes load others when they meet them; loading all
#: dialects here would take 6 ms.
_UPSTREAM = (
    "affine",
    "arith",
    "bufferization",
    "builtin",
    "cf",
    "func",
    "irdl",
    "linalg",
    "llvm",
    "math",
    "memref",
    "scf",
    "tensor",
    "vector",
)
#: While MLIR's bindings load a dialect, they store the module that describes it at the dialect's class, and let other
#: threads run. Two threads that load at once would load each other's module and crash.
_LOADING = threading.Lock()


def make_context() -> ir.Context:
    """An MLIR context with the cuesta and host dialects loaded and nothing else in it, for one thread at a time.

    Several threads may make contexts at the same time.
    """
    with _LOADING:
        context = ir.Context(load_on_create_dialects=_UPSTREAM)
        context.allow_unregistered_dialects = True  # for the open ops; verify refuses all others
        with context, ir.Location.unknown():
            Cuesta.load()
        return context


def walk(op: ir.Operation) -> Iterator[ir.Operation]:
    """Every operation below `op`, in program order."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                if len(inner.operation.regions):  # most have none: saves a hundred thousand calls
                    yield from walk(inner.operation)


def ops_named(op: ir.Operation, names: Collection[str]) -> list[ir.Operation]:
    """The operations below `op` of some names, in program order: they may be replaced one by one. Half the time of
    choosing from `walk`."""
    found = []
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                if inner.name in names:
                    found.append(inner)
                if len(inner.regions):
                    found += ops_named(inner, names)
    return found


def maker(value: ir.Value, kind: Any = None) -> ir.Operation | None:
    """The op that produces `value`; None for an argument, and for an op that is not of the class `kind`, which may be
    one of upstream's."""
    owner = value.owner
    if isinstance(owner, ir.Block) or (kind is not None and owner.name != kind.OPERATION_NAME):
        return None
    return owner.operation


def verify(module: ir.Module, where: str) -> None:
    """Runs MLIR's verifier, then checks the rules of our ops that field types cannot express.

    Raises VerifyError that names the op, its location, and `where` (a stage or a pass).
    """
    try:
        module.operation.verify()
    except ir.MLIRError as problem:
        lines = "; ".join(str(d.message) for d in problem.error_diagnostics)
        raise VerifyError(f"after {where}: {lines or problem}") from None
    with known_sizes(module):
        for op in _outer_ops(module.operation):
            wrong = problem_of(op)
            if wrong:
                raise VerifyError(f"after {where}: '{op.name}' op {wrong} at {op.location}")


def _outer_ops(op: ir.Operation) -> Iterator[ir.Operation]:
    """The operations below `op`, except those in loops and bodies that hold none of our ops."""
    for inner in (o.operation for region in op.regions for block in region.blocks for o in block.operations):
        yield inner
        if inner.name in ("builtin.module", "func.func"):
            yield from _outer_ops(inner)
        elif tt.Func.matches(inner):  # here our ops are in loops too
            yield from walk(inner)


def problem_of(op: ir.Operation) -> str | None:
    """How the op breaks a rule of its dialect that MLIR's own verifier does not know, or None."""
    name = op.name
    declared = OPEN_OPS.get(name)
    if declared is not None:
        wrong = declared.problem(op)
        if wrong:
            return wrong
    elif not op.context.is_registered_operation(name):
        return "belongs to no dialect that cuesta knows"
    check = VERIFIERS.get(name)
    try:
        return check(op) if check else None
    except Exception as error:  # the check itself stumbled over IR that it did not foresee
        return f"is malformed: {type(error).__name__}: {error}"
