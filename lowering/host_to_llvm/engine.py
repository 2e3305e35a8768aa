"""Runs LLVM's optimiser and code generator through MLIR's C interface, from any thread.

MLIR's Python bindings hold Python's lock while LLVM works; the C functions called here do not. Each call makes a
context of its own, because an MLIR context is for one thread.
"""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuesta._mlir import c_interface
from cuesta.errors import CompileError

_PIPE_BYTES = 1 << 20
"""The most that is read of a pipe at once."""


class _Handle(ctypes.Structure):
    _fields_ = (("pointer", ctypes.c_void_p),)


class _String(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))

    @staticmethod
    def of(data: bytes) -> _String:
        return _String(data, len(data))


@dataclass(frozen=True)
class _Interface:
    create_context: Callable[[bool], _Handle]
    destroy_context: Callable[[_Handle], None]
    llvm_dialect: Callable[[], _Handle]
    load_dialect: Callable[[_Handle, _Handle], _Handle]
    parse: Callable[[_Handle, _String], _Handle]
    destroy_module: Callable[[_Handle], None]
    create_engine: Callable[[_Handle, int, int, None, bool, bool], _Handle]
    write_object: Callable[[_Handle, _String], None]
    destroy_engine: Callable[[_Handle], None]


@functools.cache
def _interface() -> _Interface:
    library = c_interface()

    def function(name: str, result: Any, *parameters: Any) -> Any:
        found = getattr(library, name)
        found.restype, found.argtypes = result, parameters
        return found

    return _Interface(
        function("mlirContextCreateWithThreading", _Handle, ctypes.c_bool),
        function("mlirContextDestroy", None, _Handle),
        function("mlirGetDialectHandle__llvm__", _Handle),
        function("mlirDialectHandleLoadDialect", _Handle, _Handle, _Handle),
        function("mlirModuleCreateParse", _Handle, _Handle, _String),
        function("mlirModuleDestroy", None, _Handle),
        function(
            "mlirExecutionEngineCreate",
            *(_Handle, _Handle, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool),
        ),
        function("mlirExecutionEngineDumpToObjectFile", None, _Handle, _String),
        function("mlirExecutionEngineDestroy", None, _Handle),
    )


def make_object(text: str, opt_level: int) -> bytes:
    """Compiles a module in the LLVM dialect, which must define every symbol that it uses, to a relocatable object.

    Raises CompileError if LLVM fails; LLVM's own message goes to stderr only.
    """
    mlir = _interface()
    context = mlir.create_context(False)
    try:
        mlir.load_dialect(mlir.llvm_dialect(), context)
        module = mlir.parse(context, _String.of(text.encode()))
        if not module.pointer:
            raise CompileError("MLIR does not parse the text of a part of the module; stderr has the reason")
        try:
            return _object_of(mlir, module, opt_level)
        finally:
            mlir.destroy_module(module)
    finally:
        mlir.destroy_context(context)


def _object_of(mlir: _Interface, module: _Handle, opt_level: int) -> bytes:
    engine = mlir.create_engine(module, opt_level, 0, None, True, False)
    if not engine.pointer:
        raise CompileError("LLVM refused the module; stderr has the reason")
    try:
        objects = _written(lambda path: mlir.write_object(engine, _String.of(path.encode())))
    finally:
        mlir.destroy_engine(engine)
    if not objects:
        raise CompileError("LLVM wrote no object for the module; stderr has the reason")
    return objects


def _written(write: Callable[[str], None]) -> bytes:
    """The bytes that `write` writes to a path. The engine needs a path; a file in memory works on a full disk too."""
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        return _written_into_pipe(write)
    with open(os.memfd_create("graph.o"), "rb") as file:
        write(f"/proc/self/fd/{file.fileno()}")
        return file.read()


def _written_into_pipe(write: Callable[[str], None]) -> bytes:
    """As `_written`, under a limit on the size of files: it holds for files in memory too, and LLVM ends the process if
    a write fails. Not the default, because starting a thread takes 0.2 ms, ten times as long as a small file."""
    reading, writing = os.pipe()
    received = bytearray()
    # The reader stops at this marker, not at the pipe's end: a child that another thread forks meanwhile holds the
    # pipe open for as long as the child lives.
    end = os.urandom(16)

    def read() -> None:
        while not received.endswith(end):
            received.extend(os.read(reading, _PIPE_BYTES))

    reader = threading.Thread(target=read, name="cuesta object")  # a pipe's buffer is smaller than an object
    reader.start()
    try:
        write(f"/proc/self/fd/{writing}")
    finally:
        os.write(writing, end)
        reader.join()
        os.close(writing)
        os.close(reading)
    return bytes(received[: -len(end)])
