"""Compiles one kernel through Triton's own stages: parses the text, simplifies it (ttir), assigns layouts (ttgir),
lowers it to LLVM (llir), then to PTX and a cubin, AMD's assembly and an hsaco, or SPIR-V.

`triton.compile` on a file would skip the first stage, which simplifies; so the stages are run one by one.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import tempfile
from typing import Any

from cuesta.errors import CompileError, KernelRefused, OutOfResources
from cuesta.lowering.tt_to_binary.device_libraries import name_functions
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, KernelText
from cuesta.lowering.tt_to_binary.layouts import most_held
from cuesta.lowering.tt_to_binary.triton_versions import (
    adapt,
    check_version,
    installed_version,
    make_backend,
    make_stages,
    quicken,
    rounding_options,
)
from cuesta.targets import Target

_TENSOR_MEMORY_LIMIT = 512
"""Columns of Blackwell's tensor memory."""

_MOST_HELD = 512
"""The most elements of a tensor that a thread may hold, twice the registers that it has. To spill 8192 took ptxas four
minutes."""

_LONGEST_DIAGNOSTIC = 4000  # characters


class Log:
    """The output of Triton, LLVM and ptxas, which report errors only by printing them.

    `descriptor` is a file, open for reading and appending, to which this process's stdout and stderr are redirected.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def clear(self) -> None:
        os.ftruncate(self._descriptor, 0)

    def text(self) -> str:
        """All output since the last `clear`."""
        sys.stdout.flush()
        sys.stderr.flush()
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0).decode(errors="replace")


def compile_kernel(kernel: KernelText, target: Target, log: Log, *, keep_assembly: bool = False) -> KernelBinary:
    """Compiles a kernel to code that the target runs.

    Raises KernelRefused, with Triton's messages, for a kernel that Triton fails on, and OutOfResources for a kernel
    that is too large for the target.
    """
    log.clear()
    try:
        return _compile(kernel, target, log, keep_assembly)
    except CompileError:
        raise
    except Exception as error:  # Triton has no class for its errors
        raise KernelRefused(
            f"Triton refuses kernel {kernel.name} for target {target}: {diagnostic(log.text(), str(error))}"
        ) from error


def _compile(kernel: KernelText, target: Target, log: Log, keep_assembly: bool) -> KernelBinary:
    backend, version = _backend(target)
    shape = {"num_warps": kernel.warps, "num_stages": kernel.stages}
    options = backend.parse_options({**shape, **rounding_options(kernel.text)})
    metadata: dict[str, Any] = dict(options.__dict__)
    form: Any = _parse(adapt(name_functions(kernel.text, target), version), backend)
    forms = {}
    for stage, step in make_stages(backend, options, version).items():
        form = forms[stage] = step(form, metadata)
        if stage == "ttgir":
            _check_layouts(kernel, target, str(form))
        elif stage == "llir":
            # Now, because the remaining stages of a kernel that is too large can take a minute.
            _check_resources(kernel, target, metadata)
    assembly = forms.get("ptx") or forms.get("amdgcn")
    registers, spills = _count_registers(target, log.text(), assembly or "")
    return KernelBinary(
        name=kernel.name,
        code=form,
        shared=metadata["shared"],
        warps=metadata["num_warps"],
        symbol=metadata["name"],
        registers=registers,
        spills=spills,
        assembly=assembly if keep_assembly else None,
    )


@functools.cache
def _backend(target: Target) -> tuple[Any, str]:
    """Triton's backend and version."""
    version = installed_version()
    check_version(version, target)
    quicken(version)
    return make_backend(target), version


def _parse(text: str, backend: Any) -> Any:
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    # Triton parses files only; diagnostics name the file.
    with tempfile.TemporaryDirectory(prefix="cuesta_") as folder:
        path = os.path.join(folder, "kernel.ttir")
        with open(path, "w") as file:
            file.write(text)
        module = ir.parse_mlir_module(path, context)
    module.context = context  # the module does not keep it alive by itself
    return module


def _check_layouts(kernel: KernelText, target: Target, text: str) -> None:
    """Refuses a kernel whose layouts replicate a tensor in all threads, which Triton does not see as a cost."""
    if (held := most_held(text)) > _MOST_HELD:
        raise KernelRefused(
            f"Triton's layouts of kernel {kernel.name} for target {target} give each thread {held} elements of one "
            f"tensor, and more than {_MOST_HELD} do not fit"
        )


def _check_resources(kernel: KernelText, target: Target, metadata: dict[str, Any]) -> None:
    limits = {
        "bytes of shared memory": (metadata["shared"], target.shared_memory),
        "columns of tensor memory": (metadata.get("tmem_size") or 0, _TENSOR_MEMORY_LIMIT),
    }
    for resource, (needed, limit) in limits.items():
        if needed > limit:
            raise OutOfResources(kernel.name, str(target), resource, needed, limit)
    for scratch in ("global_scratch_size", "profile_scratch_size"):
        if metadata.get(scratch):
            raise CompileError(f"kernel {kernel.name} needs {scratch} = {metadata[scratch]}, which no launch provides")


def _count_registers(target: Target, log: str, assembly: str) -> tuple[int | None, int | None]:
    """Registers of a thread, and bytes of spills: from ptxas's log, or from AMD's assembly."""
    if target.kind == "cuda":
        return _number(r"Used (\d+) registers", log), _number(r"(\d+) bytes spill stores", log)
    if target.kind == "hip":
        spilled = _number(r"\.vgpr_spill_count:\s*(\d+)", assembly)
        return _number(r"\.vgpr_count:\s*(\d+)", assembly), None if spilled is None else 4 * spilled
    return None, None


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def diagnostic(log: str, error: str) -> str:
    """The lines of a log that report errors or notes, without the IR and assembly that may surround them."""
    telling = re.compile(r"\b(error|fatal|note)\b|LLVM ERROR|Assertion", re.IGNORECASE)
    lines = [re.sub(r'"?/\S*/kernel\.ttir"?', "kernel", line) for line in log.splitlines() if telling.search(line)]
    text = "\n  ".join(dict.fromkeys(lines)) or log.strip()[-_LONGEST_DIAGNOSTIC:] or error
    return text[:_LONGEST_DIAGNOSTIC]
