"""Writes each kernel's driver: `@k(pointers…, threads)` runs its tiles on torch's OpenMP pool, then its tail.

    llvm.func @k(%p0, %p1, %threads) {              GOMP_parallel calls @k__omp on every thread, which
      GOMP_parallel(@k__omp, {%p0, %p1}, %threads)  takes its share [lo, hi) of the tiles
      call @k__tail(%p0, %p1)
    }

One pool with torch's own kernels, so no thread waits for a core that another pool spins on. A kernel
too small for the threads' wake-up runs where it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import number_of
from cuesta.dialects.kernel_module import ALIGNED, LOOP_ANNOTATION, REST, TAIL, TILES, kernel_modules
from cuesta.passes.registry import Pass, register_pass
from cuesta.sizes import Number, compute

#: Scalar operations that a thread must have to itself to be worth waking.
WORK_PER_THREAD = 1 << 15

_DECLARATIONS = """
llvm.func @GOMP_parallel(!llvm.ptr, !llvm.ptr, i32, i32)
llvm.func @omp_get_thread_num() -> i32
llvm.func @omp_get_num_threads() -> i32
"""


class _Words:
    """Sizes as i64 values of LLVM, line by line."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.lines: list[str] = []

    def constant(self, number: int) -> str:
        return self._line(f"llvm.mlir.constant({number} : i64) : i64")

    def add(self, x: str, y: str) -> str:
        return self._line(f"llvm.add {x}, {y} : i64")

    def multiply(self, x: str, y: str) -> str:
        return self._line(f"llvm.mul {x}, {y} : i64")

    def divide(self, x: str, y: str, rest: bool) -> str:
        return self._line(f"llvm.{'urem' if rest else 'udiv'} {x}, {y} : i64")  # counts are not negative

    def _line(self, text: str) -> str:
        name = f"%{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name


def _counted(size: Number, sizes: Sequence[str], prefix: str) -> tuple[str, str]:
    """(the lines that make a count, their names beginning with `prefix`; the count)."""
    words = _Words(prefix)
    value = compute(size, {f"p{i}": given for i, given in enumerate(sizes)}, words)
    return "\n".join(words.lines), value


def _driver(name: str, kinds: Sequence[str], tiles: Number, work: Number, has_tail: bool) -> str:
    """`kinds` are the types of the kernel's buffers and sizes."""
    arguments = [f"%p{i}" for i in range(len(kinds))]
    sizes = [a for a, kind in zip(arguments, kinds, strict=True) if kind == "i64"]
    signature = ", ".join(f"{a}: {kind}" for a, kind in zip(arguments, kinds, strict=True))
    passed, passed_kinds = ", ".join(arguments), ", ".join(kinds)
    tail = f"llvm.call @{name}{TAIL}({passed}) : ({passed_kinds}) -> ()" if has_tail else ""
    threads = work // WORK_PER_THREAD
    head = f"llvm.func @{name}({signature}, %threads: i64) {{"
    if tiles == 0:
        return f"{head}\n{tail}\nllvm.return\n}}"
    all_lines, all_tiles = _counted(tiles, sizes, "tiles")
    busy_lines, busy = _counted(threads, sizes, "busy")
    serial = f"""
      %first = llvm.mlir.constant(0 : i64) : i64
      llvm.call @{name}{TILES}({passed}, %first, {all_tiles}) : ({passed_kinds}, i64, i64) -> ()"""
    if isinstance(threads, int) and isinstance(tiles, int) and min(tiles, threads) < 2:
        return f"{head}\n{all_lines}\n{serial}\n{tail}\nllvm.return\n}}"
    stores = "\n".join(
        f"""%s{i} = llvm.getelementptr %data[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
            llvm.store {a}, %s{i} : {kinds[i]}, !llvm.ptr"""
        for i, a in enumerate(arguments)
    )
    loads = "\n".join(
        f"""%s{i} = llvm.getelementptr %data[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
            {a} = llvm.load %s{i} : !llvm.ptr -> {kinds[i]}"""
        for i, a in enumerate(arguments)
    )
    return f"""
    llvm.func @{name}__omp(%data: !llvm.ptr) {{
      {loads}
      %t32 = llvm.call @omp_get_thread_num() : () -> i32
      %n32 = llvm.call @omp_get_num_threads() : () -> i32
      %t = llvm.sext %t32 : i32 to i64
      %n = llvm.sext %n32 : i32 to i64
      %one = llvm.mlir.constant(1 : i64) : i64
      {all_lines}
      %next = llvm.add %t, %one : i64
      %a = llvm.mul {all_tiles}, %t : i64
      %lo = llvm.udiv %a, %n : i64
      %b = llvm.mul {all_tiles}, %next : i64
      %hi = llvm.udiv %b, %n : i64
      llvm.call @{name}{TILES}({passed}, %lo, %hi) : ({passed_kinds}, i64, i64) -> ()
      llvm.return
    }}
    {head}
      %one = llvm.mlir.constant(1 : i64) : i64
      {busy_lines}
      {all_lines}
      %most = llvm.intr.smin({busy}, {all_tiles}) : (i64, i64) -> i64
      %count = llvm.intr.smin(%threads, %most) : (i64, i64) -> i64
      %alone = llvm.icmp "sle" %count, %one : i64
      llvm.cond_br %alone, ^serial, ^parallel
    ^serial:
      {serial}
      llvm.br ^end
    ^parallel:
      %size = llvm.mlir.constant({max(len(kinds), 1)} : i64) : i64
      %data = llvm.alloca %size x !llvm.ptr : (i64) -> !llvm.ptr
      {stores}
      %body = llvm.mlir.addressof @{name}__omp : !llvm.ptr
      %zero = llvm.mlir.constant(0 : i32) : i32
      %count32 = llvm.trunc %count : i64 to i32
      llvm.call @GOMP_parallel(%body, %data, %count32, %zero) : (!llvm.ptr, !llvm.ptr, i32, i32) -> ()
      llvm.br ^end
    ^end:
      {tail}
      llvm.return
    }}"""


@register_pass("kernel-drivers")
@dataclass(frozen=True)
class KernelDrivers(Pass):
    """Writes the driver of each kernel, and asks for the widest vectors in its loops."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                _add_drivers(nested)


def _add_drivers(nested: ir.Module) -> None:
    parts: dict[str, dict[str, ir.Operation]] = {}
    for op in nested.body.operations:
        operation = op.operation
        if operation.name != "llvm.func" or "sym_name" not in operation.attributes:
            continue
        symbol = operation.attributes["sym_name"].value
        if symbol.endswith((TILES, ALIGNED, REST, TAIL)):
            # Not inlined: the JIT wraps every function, and each wrapper would compile the loops again.
            operation.attributes["passthrough"] = ir.Attribute.parse('["noinline", ["prefer-vector-width", "512"]]')
            _annotate_loops(operation)
        for suffix in (TILES, TAIL):
            if symbol.endswith(suffix):
                parts.setdefault(symbol.removesuffix(suffix), {})[suffix] = operation
    texts = [_DECLARATIONS]
    for name, functions in parts.items():
        tiles_function = functions.get(TILES)
        some = tiles_function or functions[TAIL]
        kinds = [str(a.type) for a in some.regions[0].blocks[0].arguments]
        tiles = number_of(tiles_function.attributes["cuesta.tiles"]) if tiles_function else 0
        work = number_of(tiles_function.attributes["cuesta.work"]) if tiles_function else 0
        texts.append(_driver(name, kinds[:-2] if tiles_function else kinds, tiles, work, TAIL in functions))
    added = ir.Module.parse("\n".join([*texts, _prototypes(parts)]))
    for op in list(added.body.operations):
        symbol = op.operation.attributes["sym_name"].value
        if symbol.endswith((TILES, TAIL)):
            continue  # a prototype, there only for the parser
        nested.body.append(op.operation.detach_from_parent())


def _annotate_loops(function: ir.Operation) -> None:
    """Makes what a loop was annotated with the branch's own: upstream's passes carry it there and leave it beside."""
    for block in function.regions[0].blocks:
        branch = block.operations[len(block.operations) - 1].operation
        if LOOP_ANNOTATION in branch.attributes:
            branch.attributes["loop_annotation"] = branch.attributes[LOOP_ANNOTATION]
            del branch.attributes[LOOP_ANNOTATION]


def _prototypes(parts: dict[str, dict[str, ir.Operation]]) -> str:
    lines = []
    for name, functions in parts.items():
        for suffix, function in functions.items():
            kinds = ", ".join(str(a.type) for a in function.regions[0].blocks[0].arguments)
            lines.append(f"llvm.func @{name}{suffix}({kinds})")
    return "\n".join(lines)
