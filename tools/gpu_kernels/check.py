"""Compares a kernel, run by the numpy interpreter of Triton IR, with its linalg source, compiled for the CPU.

Both get the same random memory. All arguments are compared afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from cuesta._mlir import arith, func, ir
from cuesta.dialects import make_context, tt, types, walk
from cuesta.dialects.kernel_fields import WRITABLE
from cuesta.dialects.kernel_module import argument_shapes
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.product import ROLES
from cuesta.dialects.tt.interpreter import prepare
from cuesta.driver.lower import compile_module
from cuesta.options import Options
from cuesta.tools.gpu_kernels.collect import SuiteKernel

Tensor = torch.Tensor


_QUICK = Options.from_torch(None, {"opt_level": 1})


@dataclass(frozen=True)
class Argument:
    """A kernel's argument: a strided tensor at the start of its memory."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    element: str
    written: bool

    @property
    def extent(self) -> int:
        """Number of elements in memory from the first to the last, gaps included."""
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))

    @property
    def memref(self) -> str:
        """The argument's memref type in the host function."""
        dims = "".join(f"{n}x" for n in self.sizes)
        return f"memref<{dims}{self.element}, strided<{list(self.strides)}>>"

    def memory(self, generator: torch.Generator, positive: bool) -> Tensor:
        """Random memory of `extent` elements: floats of both signs or from [1/2, 3/2), whole numbers from [0, 64)."""
        dtype = types.torch_dtype(self.element)
        if dtype.is_floating_point:
            make = torch.rand if positive else torch.randn
            return (make(self.extent, generator=generator) + 0.5 * positive).to(dtype)
        # i8 may stand for bool, so it is 0 or 1.
        return torch.randint(0, 2 if self.element == "i8" else 64, (self.extent,), generator=generator).to(dtype)


@dataclass(frozen=True)
class Rounding:
    """How far two correct computations of a kernel may differ, beyond the rounding of a result to its own type."""

    #: the most elements that one result is summed from
    summed: int
    #: the narrowest type of intermediate values; their rounding affects f32 results too
    narrowest: torch.dtype

    def allowed(self, expected: Tensor) -> Tensor:
        """The allowed difference of each element.

        Sums of n numbers in two orders differ by about sqrt(n) roundings of the largest partial sum. An intermediate
        value may be rounded up in one computation and down in the other.
        """
        own = _TOLERANCES[expected.dtype]
        scale = expected.abs().where(expected.isfinite(), 0).max().float()
        inner = torch.finfo(self.narrowest).eps if self.narrowest != torch.float32 else 0.0
        return own * expected.abs().float() + scale * (
            2 * torch.finfo(torch.float32).eps * math.sqrt(self.summed) + inner
        )


#: torch.testing's relative tolerances.
_TOLERANCES = {torch.float64: 1e-7, torch.float32: 1.3e-6, torch.bfloat16: 1.6e-2, torch.float16: 1e-3}


def difference(kernel: SuiteKernel, seed: int = 0) -> str | None:
    """A message if the two results differ on random inputs, else None.

    Raises InterpreterError if the kernel accesses memory outside its arguments, CompileError if the CPU's stages reject
    the linalg.
    """
    with make_context(), ir.Location.unknown():
        source, lowered = ir.Module.parse(kernel.linalg), ir.Module.parse(kernel.text.text)
        function = _function(source, func.FuncOp.OPERATION_NAME)
        arguments, rounding = _arguments(function), _rounding(function)
        program = ir.Module.parse(_program(kernel, arguments))
        native = compile_module(program, from_stage="kernels", options=_QUICK)
        interpreted = prepare(_function(lowered, tt.Func.OPERATION_NAME))
    for positive in (False, True):
        generator = torch.Generator().manual_seed(seed)
        ours = [a.memory(generator, positive) for a in arguments]
        theirs = [x.clone() for x in ours]
        native([x.as_strided(a.sizes, a.strides) for x, a in zip(theirs, arguments, strict=True)])
        numbers = not any(bool(theirs[i].isnan().any()) for i, a in enumerate(arguments) if a.written)
        if numbers or positive:
            break
    if not numbers:
        return f"{kernel}: random inputs give NaN, which says nothing"
    # A product loads whole aligned 16-byte units, past the end of a row.
    unit = 16 if ROLES.name in kernel.linalg else 1
    extents = [
        x.nbytes if a.written else math.ceil(x.nbytes / unit) * unit for a, x in zip(arguments, ours, strict=True)
    ]
    interpreted.run(kernel.grid, [x.data_ptr() for x in ours], extents)
    for i, argument in enumerate(arguments):
        if not argument.written and not torch.equal(ours[i].view(torch.uint8), theirs[i].view(torch.uint8)):
            return f"{kernel} writes argument {i}, which it only reads"
        if argument.written and (message := _apart(ours[i], theirs[i], rounding)):
            return f"{kernel}, argument {i}: {message}"
    return None


def _function(module: ir.Module, name: str) -> ir.Operation:
    (function,) = (op for op in walk(module.operation) if op.name == name)
    return function


def _arguments(function: ir.Operation) -> list[Argument]:
    strides = {a: strides for a, (_, strides) in argument_shapes(function.opview).items()}
    found = []
    for value, attributes in zip(strides, function.attributes["arg_attrs"], strict=True):
        kind = ir.RankedTensorType(value.type)
        written = WRITABLE.name in attributes
        found.append(Argument(tuple(kind.shape), tuple(map(int, strides[value])), str(kind.element_type), written))
    return found


def _rounding(function: ir.Operation) -> Rounding:
    summed, narrowest = 1, torch.float32
    for op in walk(function):
        if is_generic(op):
            sizes = [n for i, n in enumerate(_sizes(op)) if "reduction" in str(op.attributes["iterator_types"][i])]
            summed = max(summed, math.prod(sizes))
        for value in op.results if op.name == arith.TruncFOp.OPERATION_NAME else ():
            narrowest = min(narrowest, types.torch_dtype(str(value.type)), key=lambda dtype: -torch.finfo(dtype).eps)
    return Rounding(summed, narrowest)


def _sizes(op: ir.Operation) -> list[int]:
    """The sizes of a generic's loops."""
    sizes: dict[int, int] = {}
    for value, mapping in zip(op.operands, op.attributes["indexing_maps"], strict=True):
        for size, position in zip(ir.RankedTensorType(value.type).shape, mapping.value.results, strict=True):
            sizes[ir.AffineDimExpr(position).position] = size
    return [sizes[i] for i in range(len(sizes))]


def _program(kernel: SuiteKernel, arguments: list[Argument]) -> str:
    """A module whose host function launches the kernel on its arguments."""
    outputs = sum(a.written for a in arguments)
    values = ", ".join(f"%{i}" for i in range(len(arguments)))
    kinds = ", ".join(a.memref for a in arguments)
    taken = ", ".join(
        f'%{i}: {a.memref} {{cuesta.dtype = "{a.element}", cuesta.strides = {list(a.strides)}}}'
        for i, a in enumerate(arguments)
    )
    memory = "{arena = 0 : i64, inputs = 0 : i64, kept = 0 : i64, peak = 0 : i64}"
    return f"""module {{
  module @kernels {{ {kernel.linalg} }}
  func.func @graph({taken}) attributes {{cuesta.memory = {memory}}} {{
    "host.launch"({values}) {{kernel = @kernels::@{kernel.text.name}, outputs = {outputs} : i64}} : ({kinds}) -> ()
    return
  }}
}}"""


def _apart(actual: Tensor, expected: Tensor, rounding: Rounding) -> str | None:
    """A message that tells how far two memories differ, or None if they agree."""
    if not actual.is_floating_point():
        count = int((actual != expected).sum())
        return f"{count} of {actual.numel()} numbers differ" if count else None
    allowed = rounding.allowed(expected)
    share = (actual.double() - expected.double()).abs() / allowed.clamp(min=1e-30)
    share[actual == expected] = 0.0  # infinities
    share[share.isnan()] = math.inf
    worst = int(share.argmax())
    if share[worst] <= 1:
        return None
    return (
        f"{float(actual[worst]):.9g} is not {float(expected[worst]):.9g} at {worst}, "
        f"{float(share[worst]):.3g} times what is allowed"
    )
