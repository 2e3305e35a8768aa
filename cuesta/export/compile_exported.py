"""Implements `cuesta.compile`: compiles an exported program into one native program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram as TorchExported
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from cuesta.driver.dump.logs import tell_report
from cuesta.driver.make_program import make_program
from cuesta.driver.own_errors import raise_told
from cuesta.errors import CompileError, InputError, Unsupported
from cuesta.export.exported_program import ExportedProgram
from cuesta.export.signature import Input, Signature
from cuesta.frontend.decompositions.table import decompositions
from cuesta.frontend.python_steps import python_steps
from cuesta.options import Options
from cuesta.reports import compile_report
from cuesta.reports.compile_report import GraphReport
from cuesta.targets import Target
from cuesta.torch_versions import warn_if_untested

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_NO_END = 1 << 62
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


def compile(
    exported: TorchExported,
    *,
    target: str | Target | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> ExportedProgram:
    """Compiles the result of torch.export.export, for inference, into a program that is called like the module.

    The program shares the exported program's weights: both see a change in place. `target`, `mode` and `options` are
    torch.compile's with backend cuesta. Sizes that the export left open stay open. Raises InputError for anything but
    the result of torch.export.export, OptionError for wrong options, Unsupported for a program that no native program
    can hold (sizes that the data decide, control flow, custom ops that write), CompileError where a pass fails.
    """
    if not isinstance(exported, TorchExported):
        raise InputError(
            f"cuesta.compile takes what torch.export.export gives, got a {type(exported).__name__}: export it first, "
            "cuesta.compile(torch.export.export(model, (x,))), or have it compiled as it runs, "
            'torch.compile(model, backend="cuesta")'
        )
    warn_if_untested()
    chosen = Options.from_torch(mode, {**(options or {}), **({} if target is None else {"target": target})})
    lowered = _decomposed(exported)
    gm = lowered.graph_module
    _drop_assertions(gm)
    _write_in_place(lowered)
    _check(gm)
    report = GraphReport("exported")
    try:
        made = make_program(gm, "exported", chosen, report)
    except CompileError as failure:
        raise_told(failure)
    compile_report.add(report)
    tell_report(report)
    if made.convention.constants:
        raise Unsupported(f"the exported graph holds tensors of its own: {', '.join(made.convention.constants)}")
    spec = exported.call_spec
    assert spec.in_spec is not None and spec.out_spec is not None
    signature = Signature(_inputs(lowered), spec.in_spec, spec.out_spec, _ranges(lowered))
    names = {item.name for item in signature.inputs if item.kind == "weight"}
    held = {**lowered.state_dict, **lowered.constants}
    return ExportedProgram(made.artefact(), made.executable, signature, {name: held[name] for name in sorted(names)})


def _decomposed(exported: TorchExported) -> TorchExported:
    """The program decomposed into the ops of torch.compile's graphs. torch's decomposition fails if an argument with
    open sizes is unused (2.13)."""
    try:
        with torch.no_grad():
            return exported.run_decompositions(_decompositions())
    except Exception as problem:
        raise Unsupported(
            f"torch's run_decompositions, which makes the exported program one of fewer ops, raised "
            f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}"
        ) from problem


def _decompositions() -> Any:
    """The decompositions of torch.compile, and of every op that torch itself implements by other ops, which export
    keeps whole."""
    from cuesta.torch_private.ops import is_decomposable_composite

    ours = decompositions()
    table = torch.export.default_decompositions()
    for op in list(table.keys()):
        if op not in ours and not is_decomposable_composite(op):
            table.pop(op)
    table.update(ours)
    return table


def _drop_assertions(gm: torch.fx.GraphModule) -> None:
    """Removes the export's assertions of dtypes and devices: a program refuses other dtypes and devices anyway."""
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_tensor_metadata.default):
        gm.graph.erase_node(node)


def _inputs(exported: TorchExported) -> list[Input]:
    found: list[Input] = []
    number = 0
    for spec in exported.graph_signature.input_specs:
        if spec.kind in _WEIGHTS and isinstance(spec.arg, TensorArgument):
            assert spec.target is not None
            found.append(Input("weight", spec.target))
        elif spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument):
            found.append(Input("tensor", spec.arg.name, number))
            number += 1
        elif spec.kind is InputKind.USER_INPUT and isinstance(spec.arg, ConstantArgument):
            found.append(Input("constant", spec.arg.name, number, spec.arg.value))
            number += 1
        else:
            raise Unsupported(f"the exported program takes {spec.arg.name!r}, a {spec.kind.name.lower()}")
    return found


def _ranges(exported: TorchExported) -> dict[str, tuple[int, int | None]]:
    """The range of each symbol. An upper end beyond any size, torch's infinity, becomes None."""
    found: dict[str, tuple[int, int | None]] = {}
    for symbol, ends in exported.range_constraints.items():
        greatest = int(ends.upper) if ends.upper.is_finite and ends.upper < _NO_END else None
        found[str(symbol)] = (int(ends.lower), greatest)
    return found


def _write_in_place(exported: TorchExported) -> None:
    """Turns results that are new values of buffers and inputs into writes to those, as in AOTAutograd's graphs.

    If the program returns the new value of exactly one input, it returns that input, as the exported module does.
    """
    graph = exported.graph_module.graph
    placeholders = {node.name: node for node in graph.find_nodes(op="placeholder")}
    inputs = exported.graph_signature.input_specs
    by_target = {spec.target: placeholders[spec.arg.name] for spec in inputs if spec.target}
    (output,) = graph.find_nodes(op="output")
    specs = exported.graph_signature.output_specs
    results = []
    written_inputs: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for spec, value in zip(specs, output.args[0], strict=True):
        if spec.kind in _MUTATIONS:
            target = str(spec.target)
            place = by_target[target] if spec.kind is OutputKind.BUFFER_MUTATION else placeholders[target]
            with graph.inserting_before(output):
                written = graph.call_function(torch.ops.aten.copy_.default, (place, value))
            written.meta = dict(place.meta)
            if spec.kind is OutputKind.USER_INPUT_MUTATION:
                written_inputs.setdefault(value, []).append(written)
        elif spec.kind is OutputKind.USER_OUTPUT:
            inputs_of_value = written_inputs.get(value, [])
            results.append(inputs_of_value[0] if len(inputs_of_value) == 1 else value)
        else:
            raise Unsupported(f"the exported program returns a {spec.kind.name.lower()}")
    output.args = (tuple(results),)
    exported.graph_module.recompile()


def _check(gm: torch.fx.GraphModule) -> None:
    steps = python_steps(gm)
    if steps:
        listed = "; ".join(f"{node.target}: {reason}" for node, reason in steps.items())
        raise Unsupported(f"steps of the exported program that run in Python only: {listed}")
