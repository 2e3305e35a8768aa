"""Handles arguments that failed a program's check: copies them into a form that fits, or says what is wrong with them.

A program reads memory by the dtypes, sizes and strides that it was compiled for, so it checks every argument before it
runs (lowering/host_to_llvm/argument_step.py). This is what happens to an argument that does not pass:

    a lazily conjugated or negated tensor,         a copy that holds the values
      a ZeroTensor
    other strides, or an address less aligned      a copy in the layout that the program was compiled for
      than the kernels rely on
    an inference tensor that is written outside    RuntimeError, as in eager
      of inference mode, a ZeroTensor that is
      written
    another dtype, size, device or layout,         InputError
      no tensor, a storage that was made too small

If the program writes into a copy, the copy is copied back into the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from cuesta.errors import InputError
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.schema.program import Argument, Program, Result
from cuesta.runtime.schema.tensors import Tensor as Described
from cuesta.runtime.schema.tensors import plain
from cuesta.runtime.strides import same_places
from cuesta.targets import parse_target
from cuesta.torch_private.dispatch import DisableTorchDispatch, DisableTorchFunctionSubclass
from cuesta.torch_private.tensors import conjugate_bit, is_zerotensor, negative_bit, reinterpret_tensor, storage_key

Tensor = torch.Tensor

#: The code that a program returns if an argument does not fit. Nothing has run then.
MISFIT = -(1 << 31)
#: Bytes: a GPU's kernels rely on arguments whose addresses are multiples of this.
ALIGNMENT = 16

_data_ptr: Callable[[Tensor], int] = Tensor.data_ptr
_view: Callable[..., Tensor] = reinterpret_tensor
_MATERIALISE = (
    "ZeroTensors are immutable. Please use the materialized zero tensor obtained using .clone() if you want a mutable "
    "tensor."
)
_INFERENCE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal "
    "tensor before doing inplace update."
)


@dataclass(frozen=True)
class Fitted:
    """The arguments of one call, with copies in place of the arguments that did not fit."""

    tensors: list[Any]
    """What to call the program with."""
    given: list[Any]
    """What the caller gave."""
    copied: list[int]
    """Their numbers."""
    written: dict[int, Tensor]
    """Those of the copies that the program writes, to be copied back."""
    described: Sequence[Result]
    """The results, as the metadata describe them."""

    def finish(self, results: list[Tensor]) -> list[Tensor]:
        """Copies written copies back and returns the call's results. A result that lies in an argument is moved from
        the copy to the caller's argument."""
        with _ours():
            for i, copy in self.written.items():
                self.given[i].copy_(copy)
        for i, result in enumerate(self.described):
            if result["kind"] == "argument" and result["index"] in self.copied:
                results[i] = _result_in(self.given[result["index"]], self.tensors[result["index"]], result, results[i])
        return results


class Arguments:
    """The arguments that a program was compiled for."""

    def __init__(self, metadata: Program) -> None:
        """`metadata` are those of a program whose sizes are all numbers."""
        program = torch.device(metadata["device"])
        self._expected = [
            _Expected(
                i,
                tuple(plain(a["sizes"])),
                tuple(plain(a["strides"])),
                DTYPES[a["dtype"]],
                device,
                _alignment(a, metadata),
            )
            for i, a in enumerate(metadata["arguments"])
            for device in [torch.device(a["device"]) if "device" in a else program]
        ]
        self._results = metadata["results"]
        self._mutates = frozenset(metadata["mutates"])

    def fit(self, tensors: Sequence[Any]) -> Fitted:
        """The arguments to call the program with in place of `tensors`, which failed its check.

        Raises InputError if one of them cannot be copied into what the program was compiled for. Raises RuntimeError,
        as eager does, for a write into a ZeroTensor, or into an inference tensor outside of inference mode.
        """
        given = list(tensors)
        if len(given) != len(self._expected):
            raise InputError(f"the program takes {len(self._expected)} tensors, and was given {len(given)}")
        with _ours():
            fitting = [expected.fit(tensor) for expected, tensor in zip(self._expected, given, strict=True)]
        for i in self._mutates:
            if is_zerotensor(given[i]):
                raise RuntimeError(_MATERIALISE)
            if given[i].is_inference() and not torch.is_inference_mode_enabled():
                raise RuntimeError(_INFERENCE)
        copied = [i for i, tensor in enumerate(given) if fitting[i] is not tensor]
        written = {i: fitting[i] for i in copied if i in self._mutates and not _is_alias(fitting[i], given[i])}
        return Fitted(fitting, given, copied, written, self._results)


@dataclass(frozen=True)
class _Expected:
    """One argument as the program was compiled for it."""

    number: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    alignment: int

    def fit(self, tensor: Any) -> Tensor:
        """The argument itself, or a copy that fits."""
        self._check(tensor)
        plain = _plain(tensor)
        if is_zerotensor(tensor):
            return self._empty().zero_()
        in_place = same_places(self.sizes, tensor.stride(), self.strides)
        if not is_lazy(tensor) and in_place and _data_ptr(plain) % self.alignment == 0:
            return plain
        if in_place:
            return aligned_copy(plain)
        if shares_places(self.sizes, self.strides):
            self._refuse(f"its strides are {list(tensor.stride())}, not the overlapping ones that the program needs")
        return self._empty().copy_(plain)

    def _check(self, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            self._refuse(f"it is a {type(tensor).__name__}")
        if tensor.layout != torch.strided or tensor.is_nested:
            layout = "nested" if tensor.is_nested else tensor.layout
            self._refuse(f"it is a {layout} tensor")
        if tensor.dtype != self.dtype or tuple(tensor.shape) != self.sizes:
            self._refuse(f"it is a {tensor.dtype} of sizes {list(tensor.shape)}")
        if tensor.device.type != self.device.type or (self.device.index or 0) != (tensor.device.index or 0):
            self._refuse(f"it is on {tensor.device}")
        if missing := missing_memory(tensor):
            self._refuse(missing)

    def _refuse(self, reason: str) -> NoReturn:
        raise InputError(
            f"argument {self.number} of the program: {reason}; it was compiled for a {self.dtype} of sizes "
            f"{list(self.sizes)} on {self.device}"
        )

    def _empty(self) -> Tensor:
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device=self.device)


@contextmanager
def _ours() -> Iterator[None]:
    """Hides tensor ops from the user: no gradients, tensor subclasses or dispatch modes take part in them."""
    with torch.no_grad(), DisableTorchFunctionSubclass(), DisableTorchDispatch():
        yield


def _alignment(argument: Argument, metadata: Program) -> int:
    dtype = DTYPES[argument["dtype"]]
    on_gpu = parse_target(metadata["target"]).gpu and "device" not in argument
    return ALIGNMENT if on_gpu else dtype.itemsize // (2 if dtype.is_complex else 1)


def missing_memory(tensor: Tensor) -> str | None:
    """Why a strided tensor's elements cannot be read; None if they can. Torch itself does not check this."""
    if not tensor.numel() or is_zerotensor(tensor):
        return None
    held, address = _memory(tensor)
    if held is None or (held and not address):
        return f"it is a {type(tensor).__name__}, which has no memory of its own"
    needed = (int(tensor.storage_offset()) + extent(tensor)) * tensor.itemsize
    return f"its storage holds {held} bytes where {needed} are needed; it was resized" if held < needed else None


def _memory(tensor: Tensor) -> tuple[int, int] | tuple[None, None]:
    """Bytes of a tensor's storage and the address of its first element; None for both if torch does not tell."""
    try:
        return tensor.untyped_storage().nbytes(), _data_ptr(tensor)
    except (NotImplementedError, RuntimeError):  # no memory of its own: a fake tensor, or a subclass that wraps others
        return None, None


def _plain(tensor: Tensor) -> Tensor:
    """The tensor without its subclass, because a program's check knows only torch's own classes."""
    is_plain = type(tensor) in (Tensor, torch.nn.Parameter)
    return tensor if is_plain else _view(tensor, tuple(tensor.shape), tensor.stride(), 0)


def _is_alias(tensor: Tensor, other: Tensor) -> bool:
    return storage_key(tensor) == storage_key(other)


def is_lazy(tensor: Tensor) -> bool:
    """Whether a tensor's memory holds the conjugates, or the negatives, of its values."""
    return tensor.is_conj() or tensor.is_neg()


def _memory_of(tensor: Tensor) -> Tensor:
    """A tensor of the values in memory: the same tensor without its lazy conjugate and negative bits."""
    memory = tensor.detach()
    memory = conjugate_bit(memory) if memory.is_conj() else memory
    return negative_bit(memory) if memory.is_neg() else memory


def aligned_copy(tensor: Tensor) -> Tensor:
    """A copy in its own memory with the same values, sizes and strides, even if elements overlap."""
    memory = _memory_of(tensor)
    if not tensor.numel() or tensor.is_contiguous():
        copy = memory.clone(memory_format=torch.contiguous_format) if tensor.numel() else memory.clone()
        values = copy
    else:
        values = flat_view(memory).clone()
        copy = _view(values, tuple(tensor.shape), tensor.stride(), 0)
    if tensor.is_conj():
        values.conj_physical_()
    if tensor.is_neg():
        values.neg_()
    return copy


def extent(tensor: Tensor) -> int:
    """The number of elements from a tensor's first to its last in memory, gaps included."""
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def shares_places(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may share an address: taken in ascending order, some stride is less than the span of the
    smaller ones."""
    reach = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1):
        if stride < reach:
            return True
        reach += (size - 1) * stride
    return False


def flat_view(tensor: Tensor) -> Tensor:
    """The memory from a tensor's first element to its last, gaps included, as a tensor of one dim."""
    return _view(tensor.detach(), (extent(tensor),), (1,), 0)


def _result_in(given: Tensor, copy: Tensor, result: Result, computed: Tensor) -> Tensor:
    """A result that lies in an argument which was copied: a view of the given argument if its layout is the copy's,
    else the computed result."""
    if result["whole"]:
        return given
    if is_zerotensor(given) or not same_places(copy.shape, given.stride(), copy.stride()):
        return computed
    view = argument_result(_memory_of(given), result)
    view = conjugate_bit(view) if given.is_conj() else view
    return negative_bit(view) if given.is_neg() else view


def argument_result(argument: Tensor, result: Result) -> Tensor:
    """A result that lies in an argument, as the metadata describe it."""
    if result["whole"]:
        return argument
    dtype = DTYPES[result["dtype"]]
    source = argument
    if argument.dtype != dtype:
        source = _view(argument, (_whole_elements(flat_view(argument).numel(), argument.dtype, dtype),), (1,), 0)
        source = source.view(dtype)
    return _view(source, tuple(result["sizes"]), tuple(result["strides"]), result["offset"])


def elements_in_reach(memory: Described, result: Result) -> int:
    """Elements from the first to the last of a tensor that the metadata describe, gaps included. Rounded down to whole
    elements of the dtype of `result`, which lies in that memory."""
    extent = 1 + sum((n - 1) * s for n, s in zip(plain(memory["sizes"]), plain(memory["strides"]), strict=True))
    return _whole_elements(extent, DTYPES[memory["dtype"]], DTYPES[result["dtype"]])


def _whole_elements(count: int, dtype: torch.dtype, to: torch.dtype) -> int:
    return count - count % max(to.itemsize // dtype.itemsize, 1)
