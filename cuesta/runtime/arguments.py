"""Arguments that a program's own check turned down: copies of them that fit, or an error that says what is wrong.

A program reads memory by the dtypes, sizes and strides that it was compiled for, so it checks every argument before it
runs (lowering/host_to_llvm/argument_step.py). Here is what happens to an argument that does not pass:

    conjugated or negated lazily, a ZeroTensor     a copy that holds the values
    other strides, or an address that is not       a copy in the layout that the program was compiled for
      aligned as its kernels rely on
    an inference tensor that is written outside    RuntimeError, as eager has it
      of inference mode, a ZeroTensor likewise
    another dtype, size, device or layout,         InputError
      no tensor, a storage that was made too small

What the program writes into a copy is copied back into the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from cuesta.errors import InputError
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.strides import same_places

Tensor = torch.Tensor

#: What a program returns where an argument does not fit; nothing has run then.
MISFIT = -(1 << 31)
#: Bytes: the kernels of a GPU rely on arguments that begin at a multiple of it.
ALIGNMENT = 16

_data_ptr: Callable[[Tensor], int] = torch._C.TensorBase.data_ptr
_view: Callable[..., Tensor] = torch._C._dynamo.guards._reinterpret_tensor  # type: ignore[attr-defined]
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
    """Arguments of one call, with copies in the places of those that did not fit."""

    tensors: list[Any]
    """What to call the program with."""
    given: list[Any]
    """What the caller gave."""
    copied: list[int]
    """Their numbers."""
    written: dict[int, Tensor]
    """Those of the copies that the program writes, to be copied back."""
    described: Sequence[Mapping[str, Any]]
    """The results, as the metadata describe them."""

    def finish(self, results: list[Tensor]) -> list[Tensor]:
        """The call's results, once what it wrote is copied back. A result that lies in an argument lies in the
        caller's, not in its copy."""
        with _ours():
            for i, copy in self.written.items():
                self.given[i].copy_(copy)
        for i, result in enumerate(self.described):
            if result["kind"] == "argument" and result["index"] in self.copied:
                results[i] = _result_in(self.given[result["index"]], self.tensors[result["index"]], result, results[i])
        return results


class Arguments:
    """What a program was compiled for."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """Of a program whose sizes are all numbers."""
        program = torch.device(metadata["device"])
        self._expected = [
            _Expected(i, tuple(a["sizes"]), tuple(a["strides"]), DTYPES[a["dtype"]], device, _alignment(a, metadata))
            for i, a in enumerate(metadata["arguments"])
            for device in [torch.device(a["device"]) if "device" in a else program]
        ]
        self._results = metadata["results"]
        self._mutates = frozenset(metadata["mutates"])

    def fit(self, tensors: Sequence[Any]) -> Fitted:
        """What to call the program with in place of `tensors`, which its check turned down.

        Raises InputError where one of them is no copy of what the program was compiled for, and RuntimeError, as eager
        does, for a write into a ZeroTensor, or into an inference tensor outside of inference mode.
        """
        given = list(tensors)
        if len(given) != len(self._expected):
            raise InputError(f"the program takes {len(self._expected)} tensors, and was given {len(given)}")
        with _ours():
            fitting = [expected.fit(tensor) for expected, tensor in zip(self._expected, given, strict=True)]
        for i in self._mutates:
            if given[i]._is_zerotensor():
                raise RuntimeError(_MATERIALISE)
            if given[i].is_inference() and not torch.is_inference_mode_enabled():
                raise RuntimeError(_INFERENCE)
        copied = [i for i, tensor in enumerate(given) if fitting[i] is not tensor]
        written = {i: fitting[i] for i in copied if i in self._mutates and not _is_alias(fitting[i], given[i])}
        return Fitted(fitting, given, copied, written, self._results)


@dataclass(frozen=True)
class _Expected:
    """What a program was compiled for in the place of one argument."""

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
        if tensor._is_zerotensor():
            return self._empty().zero_()
        in_place = same_places(self.sizes, tensor.stride(), self.strides)
        if not is_lazy(tensor) and in_place and _data_ptr(plain) % self.alignment == 0:
            return plain
        if in_place:
            return aligned_copy(plain)
        if shares_places(self.sizes, self.strides):
            self._refuse(f"its strides are {list(tensor.stride())}, and the program shares places among its elements")
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
    """What is done to tensors within is no op of the user's: no gradient, class or mode of his takes part in it."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass(), torch._C._DisableTorchDispatch():
        yield


def _alignment(argument: Mapping[str, Any], metadata: Mapping[str, Any]) -> int:
    dtype = DTYPES[argument["dtype"]]
    on_gpu = bool(metadata["kernels"]) and "device" not in argument
    return ALIGNMENT if on_gpu else dtype.itemsize // (2 if dtype.is_complex else 1)


def missing_memory(tensor: Tensor) -> str | None:
    """Why a strided tensor's elements cannot be read, None where they can: nothing of torch's looks at that."""
    if not tensor.numel() or tensor._is_zerotensor():
        return None
    held, address = _memory(tensor)
    if held is None or (held and not address):
        return f"it is a {type(tensor).__name__}, which has no memory of its own"
    needed = (int(tensor.storage_offset()) + extent(tensor)) * tensor.itemsize
    return f"its storage holds {held} bytes where {needed} are needed; it was resized" if held < needed else None


def _memory(tensor: Tensor) -> tuple[int, int] | tuple[None, None]:
    """Bytes of a tensor's storage and the address of its first element; None where torch does not say."""
    try:
        return tensor.untyped_storage().nbytes(), _data_ptr(tensor)
    except (NotImplementedError, RuntimeError):  # a tensor in name only: a fake one, one that wraps others
        return None, None


def _plain(tensor: Tensor) -> Tensor:
    """The same tensor, of no class of its own: a program's check knows torch's classes alone."""
    is_plain = type(tensor) in (Tensor, torch.nn.Parameter)
    return tensor if is_plain else _view(tensor, tuple(tensor.shape), tensor.stride(), 0)


def _is_alias(tensor: Tensor, other: Tensor) -> bool:
    return tensor.untyped_storage()._cdata == other.untyped_storage()._cdata


def is_lazy(tensor: Tensor) -> bool:
    """Whether a tensor's memory holds the conjugates, or the negatives, of its values."""
    return tensor.is_conj() or tensor.is_neg()


def _memory_of(tensor: Tensor) -> Tensor:
    """What a tensor's memory holds: the tensor without its lazy bits."""
    memory = tensor.detach()
    memory = memory._conj() if memory.is_conj() else memory
    return torch._neg_view(memory) if memory.is_neg() else memory


def aligned_copy(tensor: Tensor) -> Tensor:
    """A copy with the same values, sizes and strides, overlapping ones too, in memory of its own."""
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
    """Elements from a tensor's first to its last in memory."""
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def shares_places(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements may share a place: strides, from the least, do not step over what the lesser ones reach."""
    reach = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size > 1):
        if stride < reach:
            return True
        reach += (size - 1) * stride
    return False


def flat_view(tensor: Tensor) -> Tensor:
    """All memory from a tensor's first element to its last, as one dim."""
    return _view(tensor.detach(), (extent(tensor),), (1,), 0)


def _result_in(given: Tensor, copy: Tensor, result: Mapping[str, Any], computed: Tensor) -> Tensor:
    """A result that lies in an argument: in the given one where its memory is laid out as the copy's."""
    if result["whole"]:
        return given
    if given._is_zerotensor() or not same_places(copy.shape, given.stride(), copy.stride()):
        return computed
    view = argument_result(_memory_of(given), result)
    view = view._conj() if given.is_conj() else view
    return torch._neg_view(view) if given.is_neg() else view


def argument_result(argument: Tensor, result: Mapping[str, Any]) -> Tensor:
    """A result that lies in an argument, as the metadata describe it."""
    if result["whole"]:
        return argument
    dtype = DTYPES[result["dtype"]]
    source = argument
    if argument.dtype != dtype:
        source = _view(argument, (_whole_elements(flat_view(argument).numel(), argument.dtype, dtype),), (1,), 0)
        source = source.view(dtype)
    return _view(source, tuple(result["sizes"]), tuple(result["strides"]), result["offset"])


def elements_in_reach(memory: Mapping[str, Any], result: Mapping[str, Any]) -> int:
    """How many elements of a tensor, as the metadata describe it, lie one behind the other from its first to its last,
    or to where the last whole one ends of another dtype, that of a result which lies in it."""
    extent = 1 + sum((n - 1) * s for n, s in zip(memory["sizes"], memory["strides"], strict=True))
    return _whole_elements(extent, DTYPES[memory["dtype"]], DTYPES[result["dtype"]])


def _whole_elements(count: int, dtype: torch.dtype, to: torch.dtype) -> int:
    return count - count % max(to.itemsize // dtype.itemsize, 1)
