"""Runs a worker process: reads kernels from stdin, writes binaries to stdout, until stdin ends.

It needs this folder, cuesta's errors and targets, and Triton; neither torch nor MLIR's bindings.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from typing import Any, TypeAlias

from cuesta.errors import CompileError, KernelRefused, OutOfResources
from cuesta.lowering.tt_to_binary.compile import Log, compile_kernel
from cuesta.lowering.tt_to_binary.kernel import KernelText, pack, receive
from cuesta.targets import parse_target

#: Head and body of a request → head and body of the reply.
Answer: TypeAlias = Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes]]

IDLE = 300.0
"""Seconds without a kernel after which a worker ends by itself: it holds tens of megabytes."""


def serve() -> None:
    """Answers requests for kernels until there are no more."""
    log = Log(2)
    answer_requests(import_triton, lambda head, text: _answer(head, text, log), IDLE)


def import_triton() -> None:
    """Takes up to a second, but for workers of a server, which has done it for all of them."""
    import triton  # noqa: F401


def answer_requests(prepare: Callable[[], None], answer: Answer, idle: float) -> None:
    """Answers requests from stdin on stdout, until the parent ends or has sent none for `idle` seconds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe if it ends
    replies = os.dup(1)
    os.dup2(2, 1)  # prints go to the log, which is stderr already
    prepare()
    parent = os.getppid()
    waited = 0.0
    while waited < idle:
        # The pipe ends with the parent, unless a child that the parent forked holds it open.
        if not select.select([0], [], [], 10.0)[0]:
            if os.getppid() != parent:
                return
            waited += 10.0
            continue
        message = receive(lambda count: os.read(0, count))
        if message is None:
            return
        _write(replies, pack(*answer(*message)))
        waited = 0.0


def _answer(head: dict[str, Any], text: bytes, log: Log) -> tuple[dict[str, Any], bytes]:
    kernel = KernelText(head["name"], text.decode(), head["warps"], head["stages"])
    try:
        binary = compile_kernel(kernel, parse_target(head["target"]), log, keep_assembly=head["keep_assembly"])
    except OutOfResources as error:
        arguments = [error.kernel, error.target, error.resource, error.needed, error.limit]
        return {"kind": "resources", "arguments": arguments}, b""
    except CompileError as error:
        kind = "refused" if isinstance(error, KernelRefused) else "failed"
        return {"kind": kind, "arguments": [str(error)]}, b""
    return {"kind": "binary"}, binary.to_bytes()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
