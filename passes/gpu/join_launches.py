"""Makes one kernel, and one launch, of launches that are together.

    host.launch(%x, %wq, %q) {@mm, together = 0}              host.launch(%x, %wq, %x, %wk, %q, %k) {@mm_and_mm_2}
    host.launch(%x, %wk, %k) {@mm_2, together = 0}
                                                              tt.func @mm_and_mm_2(…)   512 + 128 programs
    tt.func @mm(…)      512 programs                     →      %p = tt.get_program_id
    tt.func @mm_2(…)    128 programs                            scf.if %p < 512 { @mm } else { @mm_2 at %p - 512 }

group-launches chose them; here it is known how many programs and warps each takes. A program runs the code of one
member. Members with far more or fewer warps stay launches of their own.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import host, ops_named, tt
from cuesta.dialects.kernel_fields import GRID, STAGES, WARPS
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.upstream_fields import FUNCTION_TYPE, SYM_NAME
from cuesta.passes.analysis.launches import launched_names
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass

_T = TypeVar("_T")
#: How many times more warps than its own a member may run with.
_MORE_WARPS = 4
#: The longest name of a kernel: it is also a file's.
_LONGEST_NAME = 100


@register_pass("join-launches")
class JoinLaunches(Pass):
    """Makes one kernel of those that are launched together."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            members = _Members.of(module)
            for function in functions(module):
                for group in host.groups_in(function.regions[0].blocks[0]):
                    for launches in _joinable(group, members):
                        _join(launches, members)
            members.erase_unused(module)


@dataclass
class _Members:
    """The kernels that may be joined, and those made of them, by name."""

    kernels: dict[str, ir.Operation]
    replaced: set[str]

    @staticmethod
    def of(module: ir.Module) -> _Members:
        ops = (view.operation for nested in kernel_modules(module) for view in nested.body.operations)
        return _Members({SYM_NAME.of(op): op for op in ops if tt.Func.matches(op)}, set())

    def programs(self, launch: ir.Operation) -> int | None:
        """How many programs a launch has; None where only a call tells, or the kernel is not at the tt level."""
        kernel = self.kernels.get(host.Launch.kernel.of(launch))
        grid = GRID.of(kernel) if kernel is not None else []
        return grid[0] if len(grid) == 3 and isinstance(grid[0], int) and grid[1:] == [1, 1] else None

    def erase_unused(self, module: ir.Module) -> None:
        """Erases the kernels that are launched only together with others."""
        for name in self.replaced - launched_names(module):
            self.kernels.pop(name).erase()


def _joinable(group: Sequence[ir.Operation], members: _Members) -> Iterable[list[ir.Operation]]:
    """The parts of a group whose kernels can be one, each of more than one launch. Their numbers of warps are alike,
    and equal where they multiply blocks, as those are shared out among the warps. A program that checks its operands
    keeps each launch, whose kernel its errors name."""
    fit = [op for op in group if members.programs(op) is not None and not host.Launch.extents.is_on(op)]
    alike: list[list[ir.Operation]] = []
    for op in fit:
        kernel = members.kernels[host.Launch.kernel.of(op)]
        chosen = next((own for own in alike if _fits(kernel, members.kernels[host.Launch.kernel.of(own[0])])), None)
        if chosen is None:
            alike.append([op])
        else:
            chosen.append(op)
    return [launches for launches in alike if len(launches) > 1]


def _fits(kernel: ir.Operation, other: ir.Operation) -> bool:
    few, many = sorted([WARPS.of(kernel), WARPS.of(other)])
    if any(ops_named(function, [tt.Dot.OPERATION_NAME]) for function in (kernel, other)):
        return few == many and STAGES.of(kernel) == STAGES.of(other)
    return many <= _MORE_WARPS * few


def _join(launches: Sequence[ir.Operation], members: _Members) -> None:
    """Replaces launches by one, in the place of the last."""
    names = [host.Launch.kernel.of(op) for op in launches]
    outputs = [host.Launch.outputs.of(op) for op in launches]
    name = _joint_name(names)
    if name not in members.kernels:
        counts = [members.programs(op) or 0 for op in launches]
        members.kernels[name] = _joint_kernel(name, [members.kernels[n] for n in names], outputs, counts)
    members.replaced |= {*names}
    operands = _reordered([list(op.operands) for op in launches], outputs)
    with ir.InsertionPoint(launches[-1]), ir.Location.fused([op.location for op in launches]):
        host.Launch.build(
            operands,
            kernel=name,
            outputs=sum(outputs),
            ops=[word for op in launches for word in host.Launch.ops.find(op) or []],
            members=names,
            overlaps=all(host.Launch.overlaps.is_on(op) for op in launches) or None,
        )
    for op in launches:
        op.erase()


def _joint_name(names: Sequence[str]) -> str:
    """The name of the kernel that members are joined to: the same for the same members."""
    name = "_and_".join(names)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{names[0]}_and_{len(names) - 1}_more_{zlib.crc32(name.encode()):08x}"


def _reordered(operands: Sequence[list[_T]], outputs: Sequence[int]) -> list[_T]:
    """What belongs to operands that the members read, then to those that they write."""
    read = [x for own, count in zip(operands, outputs, strict=True) for x in own[:-count]]
    return read + [x for own, count in zip(operands, outputs, strict=True) for x in own[-count:]]


def _joint_kernel(
    name: str, members: Sequence[ir.Operation], outputs: Sequence[int], counts: Sequence[int]
) -> ir.Operation:
    """A kernel that runs one member in each program; `counts` are their numbers of programs."""
    with ir.InsertionPoint(members[0]), members[0].location:
        copies = [member.clone() for member in members]
        arguments = _reordered([list(copy.regions[0].blocks[0].arguments) for copy in copies], outputs)
        kinds = _reordered([list(FUNCTION_TYPE.of(member).inputs) for member in members], outputs)
        attributes = _reordered([list(tt.Func.arg_attrs.of(member)) for member in members], outputs)
        joint, block = tt.func(
            name,
            kinds,
            [{entry.name: entry.attr for entry in own} for own in attributes],
            grid=(sum(counts), 1, 1),
            warps=max(WARPS.of(member) for member in members),
            stages=max(STAGES.of(member) for member in members),
        )
        for old, new in zip(arguments, block.arguments, strict=True):
            old.replace_all_uses_with(new)
        with ir.InsertionPoint(block):
            starts = [0, *itertools.accumulate(counts)]
            _write(copies, starts, tt.get_program_id(0))
            tt.return_()
        for copy in copies:
            copy.erase()
    return joint


def _write(members: Sequence[ir.Operation], starts: Sequence[int], program: ir.Value) -> None:
    """Moves the members' code to the insertion point, each under the condition that a program is one of its own."""
    (first, *others), start = members, starts[0]
    if not others:
        _move(first, program, start)
        return
    is_first = arith.cmpi(arith.CmpIPredicate.slt, program, tt.constant(starts[1], "i32"))
    branch = scf.IfOp(is_first, has_else=True)
    with ir.InsertionPoint(branch.then_block):
        _move(first, program, start)
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        _write(others, starts[1:], program)
        scf.YieldOp([])


def _move(member: ir.Operation, program: ir.Value, start: int) -> None:
    """Moves a member's code to the insertion point; its programs begin at `start`."""
    own = arith.subi(program, tt.constant(start, "i32")) if start else program
    for op in ops_named(member, [tt.GetProgramId.OPERATION_NAME]):
        op.results[0].replace_all_uses_with(own)
        op.erase()
    block = ir.InsertionPoint.current.block
    for view in list(member.regions[0].blocks[0].operations)[:-1]:
        block.append(view.operation)
