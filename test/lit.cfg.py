"""`lit test/` runs the .mlir tests, as a compiler developer expects; pytest runs them too (conftest.py)."""

# ruff: noqa: F821  (lit defines `config` before it runs this file)

import os
import sysconfig
from pathlib import Path

import lit.formats

config.name = "cuesta"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(Path(__file__).parent.parent / "build" / "lit")
# cuesta-opt and filecheck are those of the environment that runs lit, whether it is activated or not.
config.environment["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), config.environment.get("PATH", "")])
