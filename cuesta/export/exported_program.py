"""Implements compiled programs of `torch.export`: called like the module, saved, loaded without compiler or MLIR.

program = cuesta.compile(torch.export.export(model, (x,)))
y = program(x)
program.save("model.cuesta")
y = cuesta.load("model.cuesta")(x)         # in another process, without MLIR
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cuesta.driver.calling import KEPT_SIZES
from cuesta.errors import InputError
from cuesta.export.arrangement import difference
from cuesta.export.pickled_program import parts_of, state_of
from cuesta.export.program_archive import as_key, as_path
from cuesta.export.program_file import read_program, write_program
from cuesta.export.signature import Input, Signature
from cuesta.frontend.convention import Convention, Output
from cuesta.frontend.symbols import reader
from cuesta.runtime.arguments import aligned_copy, missing_memory, shares_places
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.dtypes import DTYPES
from cuesta.runtime.executable import Executable
from cuesta.runtime.schema.program import Argument
from cuesta.runtime.schema.tensors import plain
from cuesta.runtime.shared_memory import pairs_written
from cuesta.runtime.strides import same_places
from cuesta.torch_private import pytree


@dataclass(frozen=True)
class _Sized:
    """The program for one set of sizes: its executable, the expected tensor for each argument of the graph, and its
    results."""

    run: Executable
    expected: dict[int, Argument]
    outputs: list[Output]


class ExportedProgram:
    """A compiled exported program. Call it like the exported module; it computes no gradients.

    A call raises InputError for arguments that the program was not exported for, and the errors of an Executable's
    call.
    """

    def __init__(
        self, artefact: Artefact, executable: Executable, signature: Signature, weights: Mapping[str, torch.Tensor]
    ) -> None:
        self._artefact, self._program, self._signature = artefact, executable, signature
        self._convention = Convention.from_dict(artefact.metadata["convention"])
        self._weights = dict(weights)
        written = [self._convention.tensor_arguments[i] for i in executable.metadata["mutates"]]
        #: positions of the arguments that are written, in the order of the writes
        self._written = dict.fromkeys(written)
        #: positions of the tensors that may alias a written one; weights that are only read never do
        self._may_share = [
            i for i in self._convention.tensor_arguments if i in self._written or signature.inputs[i].kind != "weight"
        ]
        #: results that are views of a whole argument: as in eager, they are other tensor objects than the argument
        self._whole_views = [
            i for i, r in enumerate(executable.metadata["results"]) if r["kind"] == "argument" and r["whole"]
        ]
        self._read = reader(self._convention.sources)
        self._sized = functools.lru_cache(maxsize=KEPT_SIZES)(self._make_sized)
        self._check_weights()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flat = self._flatten(args, kwargs)
        sized = self._sized(self._sizes(flat))
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        values: list[Any] = []
        for position, item in enumerate(self._signature.inputs):
            if item.kind == "weight":
                values.append(self._weights[item.name])
                continue
            given = flat[item.number]
            if item.kind == "constant":
                _check_constant(item, given)
                values.append(given)
                continue
            laid_out = self._laid_out(item, given, sized.expected[position])
            if laid_out is not given and position in self._written:
                copies.append((given, laid_out))
            values.append(laid_out)
        copies += self._apart(values)
        tensors = [values[i] for i in self._convention.tensor_arguments]
        results = sized.run(tensors)
        with torch.no_grad():
            for given, copy in copies:
                given.copy_(copy)
            for i in self._whole_views:
                results[i] = results[i].detach()
        by_kind = {"tensor": lambda o: results[o.index], "argument": self._argument_of(flat), "value": _value_of}
        outputs = [by_kind[output.kind](output) for output in sized.outputs]
        return pytree.tree_unflatten(outputs, self._signature.out_spec)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights by name, with the current values of parameters and buffers: a program updates its buffers."""
        return dict(self._weights)

    def save(self, path: str | Path, *, weights: bool = True, key: bytes | None = None) -> Path:
        """Writes the program into a file that `cuesta.load` reads; without `weights`, these must be passed to `load`.

        `key`, bytes that only you and those who load it know, signs the file (HMAC-SHA256). Raises InputError for an
        invalid path or key, ArtefactError for containers among arguments or results that cannot be written, OSError
        where the file cannot be written, CompileError where a GPU's kernel for other sizes than were exported with
        cannot be made.
        """
        from cuesta.driver.late.late_kernels import make_all

        place, checked = as_path(path, "save"), as_key(key)
        make_all(self._artefact)
        kept = self._weights if weights else None
        return write_program(place, self._artefact, self._signature, kept, checked)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, torch.save and copy.copy. Raises CompileError as `save` does."""
        return _rebuilt, self._state()

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        """A program with copies of the weights; weights that share memory also share it in the copy."""
        return _rebuilt(*copy.deepcopy(self._state(), memo))

    def _state(self) -> tuple[Any, ...]:
        from cuesta.driver.late.late_kernels import make_all

        make_all(self._artefact)
        return state_of(self._artefact, self._signature, self._weights)

    def _sizes(self, flat: Sequence[Any]) -> tuple[int, ...]:
        """The values of the symbols in sizes, in the order of their sources."""
        values = [None if item.kind == "weight" else flat[item.number] for item in self._signature.inputs]
        for source in self._convention.sources:
            item, value = self._signature.inputs[source.argument], values[source.argument]
            if not isinstance(value, torch.Tensor) or source.dim is None or value.dim() <= source.dim:
                raise InputError(
                    f"argument {item.name!r} has no dimension {source.dim}, whose size the export left open"
                )
        return self._read(values)

    def _make_sized(self, sizes: tuple[int, ...]) -> _Sized:
        """The program for one set of sizes. Raises InputError for sizes that the export or the compiled program does
        not admit."""
        convention = self._convention
        known = dict(zip((source.name for source in convention.sources), sizes, strict=True))
        for source, size in zip(convention.sources, sizes, strict=True):
            least, greatest = self._signature.ranges.get(source.name, (0, None))
            if size < least or (greatest is not None and size > greatest):
                name = self._signature.inputs[source.argument].name
                raise InputError(
                    f"argument {name!r} has size {size} in dimension {source.dim}; "
                    f"the export admits {least} to {'any' if greatest is None else greatest}"
                )
        if not self._program.admits(known):
            raise InputError(f"the compiled program does not admit the sizes {known}")
        program = self._program.with_sizes(known)
        expected = dict(zip(convention.tensor_arguments, program.metadata["arguments"], strict=False))
        return _Sized(program, expected, convention.with_sizes(known).outputs)

    def _argument_of(self, flat: Sequence[Any]) -> Any:
        def argument(output: Any) -> Any:
            item = self._signature.inputs[output.index]
            return self._weights[item.name] if item.kind == "weight" else flat[item.number]

        return argument

    def _flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        wanted = self._signature.in_spec
        names = list(wanted.child(1).context)
        if set(kwargs) != set(names):
            raise InputError(f"keywords {sorted(kwargs)}; the program was exported with {sorted(names)}")
        flat, spec = pytree.tree_flatten((tuple(args), {name: kwargs[name] for name in names}))
        if spec != wanted:
            names = [item.name for item in self._signature.inputs if item.kind != "weight"]
            raise InputError(difference(spec, wanted, names))
        return flat

    def _laid_out(self, item: Input, given: Any, expected: Argument) -> torch.Tensor:
        """The tensor with the strides that the program expects: a copy if it has others."""
        sizes, strides = tuple(plain(expected["sizes"])), tuple(plain(expected["strides"]))
        dtype = DTYPES[expected["dtype"]]
        if not isinstance(given, torch.Tensor):
            raise InputError(f"argument {item.name!r} is a {type(given).__name__}; a tensor was exported")
        if given.layout != torch.strided or given.is_nested:
            layout = "nested" if given.is_nested else str(given.layout)
            raise InputError(f"argument {item.name!r} is a {layout} tensor; a strided one was exported")
        if tuple(given.shape) != sizes or given.dtype != dtype:
            raise InputError(
                f"argument {item.name!r} is {given.dtype} of sizes {list(given.shape)}; "
                f"the program was exported for {dtype} of sizes {list(sizes)}"
            )
        device = torch.device(self._program.metadata["device"])
        if given.device.type != device.type and not self._program.metadata["elsewhere"]:
            raise InputError(f"argument {item.name!r} is on {given.device}; the program runs on {device}")
        if missing := missing_memory(given):
            raise InputError(f"argument {item.name!r}: {missing}")
        if same_places(sizes, given.stride(), strides):
            return given  # the program itself copies a lazily conjugated tensor
        if shares_places(sizes, strides):
            raise InputError(
                f"argument {item.name!r} has strides {list(given.stride())}; the program was exported for strides "
                f"{list(strides)}, with which elements share places, so no copy can take its place"
            )
        with torch.no_grad():
            return torch.empty_strided(sizes, strides, dtype=dtype, device=given.device).copy_(given)

    def _apart(self, values: list[Any]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Replaces each written argument that shares memory with another by a copy, because an exported program reads
        everything before it writes. Returns pairs of argument and copy, in the order of the writes."""
        if not self._written:
            return []
        shared = set(itertools.chain(*pairs_written({i: values[i] for i in self._may_share}, self._written)))
        copies = []
        for position in filter(shared.__contains__, self._written):
            copies.append((values[position], aligned_copy(values[position])))
            values[position] = copies[-1][1]
        return copies

    def _check_weights(self) -> None:
        """Raises InputError where a weight is missing or is not what the program was compiled for."""
        expected = dict(zip(self._convention.tensor_arguments, self._program.metadata["arguments"], strict=False))
        for position, item in enumerate(self._signature.inputs):
            if item.kind != "weight":
                continue
            if item.name not in self._weights:
                raise InputError(
                    f"weight {item.name!r} is missing; a program saved without weights takes them from "
                    "cuesta.load(path, weights)"
                )
            laid_out = self._laid_out(item, self._weights[item.name], expected[position])
            self._weights[item.name] = laid_out


def load(
    path: str | Path, weights: Mapping[str, torch.Tensor] | None = None, *, key: bytes | None = None
) -> ExportedProgram:
    """Loads the program that `ExportedProgram.save` wrote into `path`; needs no MLIR and no compiler.

    `weights` take precedence over those in the file, which may hold none. A program is code: it is loaded only if
    nobody else can write its file or folder, or if it was signed with `key`, which is checked before anything else is
    read.

    Raises SignatureError for a program that `key` did not sign, UnsafeFileError for a file that others could have
    written, ArtefactError (which both are) for a file that is damaged, foreign, or made for another torch or CPU,
    InputError for weights that are missing or do not fit, and for an invalid path, weights or key, DeviceError if the
    program needs a GPU that is missing, OSError if the file cannot be read.
    """
    return ExportedProgram(*read_program(path, weights, key))


def _rebuilt(*state: Any) -> ExportedProgram:
    """Called by pickle."""
    return ExportedProgram(*parts_of(*state))


def _check_constant(item: Input, given: Any) -> None:
    if type(given) is not type(item.value) or given != item.value:
        raise InputError(f"argument {item.name!r} is {given!r}; the export fixed it at {item.value!r}")


def _value_of(output: Any) -> Any:
    return output.value
