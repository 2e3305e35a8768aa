"""Handles all differences between the versions of Triton that cuesta works with: 3.6 to 3.9, and triton-xpu 3.3.

The text that the tt level prints is Triton 3.6's. It means the same in 3.7 and 3.8. In 3.9

- `cache` and `evict` of loads and stores are one attribute, `cachePolicy` (the old ones are silently ignored);
- a changed default of an environment variable decides whether products and sums fuse, so `rounding_options` says;
- block pointers are gone, and with them `boundaryCheck`, which is ignored where it is empty.

triton-xpu 3.3 has no knobs, no Language, and a backend that compiles C++ to query the device; its arith.trunci has no
overflow flags yet, and it mistakes a kernel named exp for OpenCL's exp.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

from cuesta.errors import CompileError
from cuesta.targets import Target

#: First and last version: of Triton, and of the kinds that have a Triton of their own.
_RANGES = {"xpu": ((3, 3), (3, 3))}
_TRITON = ((3, 6), (3, 9))
_HINTS = {
    "xpu": "triton-xpu==3.3.0b1 in an environment of its own, as make test-intel does, and set CUESTA_XPU_PYTHON "
    "to its Python"
}


def rounding_options(text: str) -> dict[str, bool]:
    """Options for a kernel of that text, for each backend that knows them. Denormals are kept, as in eager. Products
    are rounded before they are added (no FMA), as between two ops of eager: x * x - x * x is 0. Only sums of products
    may use FMA: matrix products, which do where they run on no tensor cores, and what a reduction adds up."""
    return {"enable_fp_fusion": "tt.dot" in text or not _adds_products(text), "enable_reflect_ftz": False}


_DEFINED = re.compile(r'(%[\w#]+)(?::\d+)? = "?([\w.]+)"?(.*)')
_NAME = re.compile(r"%[\w#]+")
#: Ops whose elements are those of their operand.
_SAME_ELEMENTS = ("tt.broadcast", "tt.expand_dims", "tt.splat", "tt.reshape", "tt.trans")


def _adds_products(text: str) -> bool:
    """Whether a kernel adds to a product, or subtracts from or by one, other than by a reduction. A name that stands
    for several values, in regions side by side, counts as a product if one of them is."""
    products: set[str] = set()
    for line in text.splitlines():
        found = _DEFINED.match(line.strip())
        if found is None:
            continue
        name, op, rest = found.groups()
        used = _NAME.findall(rest)
        if op == "arith.mulf" or (op in _SAME_ELEMENTS and products.intersection(used)):
            products.add(name)
        elif op in ("arith.addf", "arith.subf") and products.intersection(used):
            return True
    return False


_CACHE = ("none", "ca", "cg", "wb", "cs", "wt", "cv")
_EVICT = ("evict_normal", "evict_first", "evict_last")
_POLICY = re.compile(r"cache = (\d) : i32, evict = (\d) : i32")
_TRUNCATION = re.compile(r'("arith\.trunci"\([^)]*\)) <{overflowFlags = #arith\.overflow<none>}>')

#: Properties of an Intel data-centre GPU (PVC), for machines without one.
_XPU = {
    "architecture": 0,
    "sub_group_sizes": [16, 32],
    "has_fp64": True,
    "max_work_group_size": 1024,
    "max_num_sub_groups": 64,
    "has_subgroup_matrix_multiply_accumulate": True,
    "has_subgroup_2d_block_io": True,
    "has_bfloat16_conversions": True,
}


@functools.cache
def installed_version() -> str:
    """The version of Triton that this Python would import, without importing it; "" where there is none."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return ""
    found = re.search(r"__version__ = ['\"]([^'\"]+)", Path(spec.origin).read_text())
    return found[1] if found else "unknown"


def check_version(version: str, target: Target) -> None:
    """Raises CompileError where Triton is missing, or is a version that nobody has tried."""
    first, last = _RANGES.get(target.kind, _TRITON)
    words = f"{first[0]}.{first[1]}" if first == last else f"{first[0]}.{first[1]} to {last[0]}.{last[1]}"
    wanted = f"target {target} needs Triton {words}"
    hint = _HINTS.get(target.kind, f"triton>={first[0]}.{first[1]},<{last[0]}.{last[1] + 1}")
    if not version:
        raise CompileError(f"{wanted}, but no Triton is installed: install {hint}")
    if not first <= _numbers(version) <= last:
        raise CompileError(f"{wanted}, found {version}: install {hint}")


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def adapt(text: str, version: str) -> str:
    """`text`, which is Triton 3.6's, as `version` spells it."""
    if _numbers(version) < (3, 6):
        return _TRUNCATION.sub(r"\1", text).replace('sym_name = "', 'sym_name = "cuesta_', 1)
    if _numbers(version) < (3, 9):
        return text
    return _POLICY.sub(_policy, text)


def _policy(match: re.Match[str]) -> str:
    cache, evict = _CACHE[int(match[1]) - 1], _EVICT[int(match[2]) - 1]
    return f"cachePolicy = #tt.cache_policy<cache_modifier = {cache}, eviction_policy = {evict}>"


def make_backend(target: Target) -> Any:
    """Triton's backend for the target. Imports Triton."""
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    arch: Any = {"cuda": int(target.arch or 0), "xpu": _XPU}.get(target.kind) if target.kind != "hip" else target.arch
    triton_target = GPUTarget(target.kind, arch, target.warp_size)
    for backend in backends.values():
        if backend.compiler.supports_target(triton_target):
            if target.kind == "xpu":
                backend.compiler.__init__.__globals__["compile_module_from_src"] = _no_device
            return backend.compiler(triton_target)
    raise CompileError(f"the installed Triton has no backend for target {target}: install {_HINTS[target.kind]}")


class _NoDevice:
    """Replaces the C++ module with which Intel's backend queries the device's name."""

    @staticmethod
    def parse_device_arch(architecture: int) -> str:
        return ""


def _no_device(source: str, name: str) -> type[_NoDevice]:
    return _NoDevice


def make_stages(backend: Any, options: Any, version: str) -> dict[str, Any]:
    """Triton's own functions from one form to the next, by the form that they produce: ttir, ttgir, llir, …"""
    stages: dict[str, Any] = {}
    if _numbers(version) < (3, 6):
        backend.add_stages(stages, options)
    else:
        from triton.backends.compiler import Language

        backend.add_stages(stages, options, Language.TRITON)
    return stages


def quicken(version: str) -> None:
    """Configures Triton: no line tables, which take time and are never read; ptxas's log, for its register counts."""
    if _numbers(version) < (3, 6):
        return
    from triton import knobs

    knobs.compilation.disable_line_info = True
    knobs.nvidia.dump_ptxas_log = True
