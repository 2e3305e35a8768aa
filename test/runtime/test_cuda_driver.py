"""Kernels and a driver that refuses them: a fake one, as there is no GPU here."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from cuesta.errors import DeviceError
from cuesta.runtime.cuda import cuda_driver

KERNEL = {"name": "gelu", "symbol": "gelu", "grid": [4, 1, 1], "warps": 4, "shared": 65536, "late": False}


class Driver:
    """Does nothing, and returns the code that a function of that name is to fail with."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __init__(self, **codes: int) -> None:
        self.codes = codes
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            self._answer(name, arguments)
            return self.codes.get(name, 0)

        return call

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "cuDriverGetVersion":
            arguments[0]._obj.value = 12040
        elif name == "cuGetErrorName":
            arguments[1]._obj.value = b"CUDA_ERROR_%d" % arguments[0]
        elif name == "cuGetErrorString":
            arguments[1]._obj.value = b"its words"
        elif arguments and isinstance(getattr(arguments[0], "_obj", None), ctypes.c_void_p):
            arguments[0]._obj.value = 4096  # a handle


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cuda_driver, "_LOADED", {})
    cuda_driver._primary_context.cache_clear()
    yield
    cuda_driver._primary_context.cache_clear()


def load(monkeypatch: pytest.MonkeyPatch, fake: Driver) -> Any:
    monkeypatch.setattr(cuda_driver, "driver", lambda: fake)
    return cuda_driver.load_kernels([KERNEL], {"gelu": b"\x7fELF"}, "cuda:90", 0, [])


@pytest.mark.parametrize("code", [200, 209, 218, 222])
def test_code_that_the_driver_does_not_take_makes_it_a_suspect(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    fake = Driver(cuModuleLoadData=code)
    with pytest.raises(DeviceError) as caught:
        load(monkeypatch, fake)
    assert str(caught.value) == (
        f"cuModuleLoadData failed for kernel gelu, made for cuda:90: CUDA_ERROR_{code}: its words; "
        "the driver is one for CUDA 12.4: is it too old?"
    )
    assert fake.calls.count("cuCtxPushCurrent_v2") == fake.calls.count("cuCtxPopCurrent_v2") == 1


def test_other_errors_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="CUDA_ERROR_2: its words$"):
        load(monkeypatch, Driver(cuModuleLoadData=2))


def test_shared_memory_that_is_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="kernel gelu, made for cuda:90, with 65536 bytes of shared memory: CUDA_ERR"):
        load(monkeypatch, Driver(cuFuncSetAttribute=1))


def test_a_kernel_that_was_refused_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError):
        load(monkeypatch, Driver(cuModuleLoadData=2))
    good = Driver()
    load(monkeypatch, good)
    load(monkeypatch, good)
    assert good.calls.count("cuModuleLoadData") == 1


def test_a_kernel_that_is_late_is_loaded_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Driver()
    monkeypatch.setattr(cuda_driver, "driver", lambda: fake)
    kernels, code = [KERNEL, KERNEL | {"name": "gelu__any", "late": True, "warps": 8}], {"gelu": b"1", "gelu__any": b""}
    table = cuda_driver.load_kernels(kernels, code, "cuda:90", 0, [])
    assert table.words[1:] == [4096, 4, 1, 1, 128, 65536, 0, 0, 0, 0, 0, 0]
    asked: list[Sequence[int]] = []

    def make(numbers: Sequence[int]) -> list[list[int]]:
        asked.append(numbers)
        return cuda_driver.rows_of([kernels[n] for n in numbers], code | {"gelu__any": b"2"}, "cuda:90", 0)

    table.make = make
    table.complete([1])
    table.complete([1])
    assert asked == [[1]]
    assert table.words[1:] == [4096, 4, 1, 1, 128, 65536, 4096, 4, 1, 1, 256, 65536]


def test_a_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "_DRIVER", "libnosuch.so.1")
    cuda_driver.driver.cache_clear()
    with pytest.raises(DeviceError, match="this machine has no NVIDIA driver: libnosuch"):
        cuda_driver.driver()
    cuda_driver.driver.cache_clear()


def test_a_threads_first_copy_makes_the_devices_context_current(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutContext(Driver):
        def _answer(self, name: str, arguments: tuple[Any, ...]) -> None:
            super()._answer(name, arguments)
            if name == "cuCtxSetCurrent":
                self.codes.clear()

    fake = WithoutContext(cuMemcpyDtoDAsync_v2=201)
    monkeypatch.setattr(cuda_driver, "driver", lambda: fake)
    queue = cuda_driver.copier.__wrapped__(0)
    queue(1, 2, 3, 4)
    copies = [name for name in fake.calls if name in ("cuMemcpyDtoDAsync_v2", "cuCtxSetCurrent")]
    assert copies == ["cuMemcpyDtoDAsync_v2", "cuCtxSetCurrent", "cuMemcpyDtoDAsync_v2"]
    fake.codes["cuMemcpyDtoDAsync_v2"] = 700
    with pytest.raises(DeviceError, match="^cuMemcpyDtoDAsync_v2 failed for 3 bytes: CUDA_ERROR_700"):
        queue(1, 2, 3, 4)
