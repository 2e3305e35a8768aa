"""Describes the machine and the software of a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch

from cuesta.distributions import version_of
from cuesta.runtime.machine import first_processor

PACKAGES = ("torch", "triton", "torch-mlir", "transformers", "torchvision", "numpy", "cuesta")


def describe(threads: int) -> dict[str, object]:
    """Machine, versions, commit, time, and threads used, as JSON values."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": threads,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in PACKAGES},
        "commit": _commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg(),
    }


def describe_gpu(device: torch.device) -> dict[str, object]:
    """Name, memory and libraries of a GPU, as JSON values; empty for a CPU."""
    if device.type != "cuda":
        return {}
    properties = torch.cuda.get_device_properties(device)
    return {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def gpu_driver() -> str | None:
    """The version of NVIDIA's driver; None if nvidia-smi does not tell it."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.splitlines()[0].strip() if done.stdout else None


def _cpu_name() -> str:
    """The processor's name, with family and model: the name of a virtual processor may be just "AMD EPYC"."""
    said = first_processor()
    name = said.get("model name", platform.machine() if said else platform.processor())
    return f"{name} (family {said['cpu family']}, model {said['model']})" if "cpu family" in said else name


def _commit() -> str | None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None
