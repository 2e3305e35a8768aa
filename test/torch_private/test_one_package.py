"""Torch's private parts are named in cuesta/torch_private alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cuesta.tools.import_graph import modules

#: Private attributes of torch's objects: of tensors, storages, overloads, custom ops, nodes and compiled models. A
#: chain that begins with another name than torch does not tell whose attribute it ends with, so these are listed.
PRIVATE_MEMBERS = {
    *("_base", "_cdata", "_conj", "_is_view", "_is_zerotensor", "_use_count", "_version"),
    *("_init_fn", "_opname", "_overloadname", "_overloadpacket", "_qualified_op_name", "_schema"),
    *("_erased", "_input_nodes", "_modules", "_parameters", "_buffers", "_orig_mod", "_torchdynamo_orig_callable"),
}

#: The modules outside of the package, by name.
OUTSIDE = {name: path for name, path in modules().items() if not name.startswith("cuesta.torch_private")}


def private_parts_of_torch(tree: ast.AST) -> list[str]:
    """Where a module reaches into torch's private names, `line: name`, by imports, attributes and getattr.

    Beside names with a leading underscore, torch.fx.experimental counts. Names of operators, torch.ops.aten._softmax
    and aten._softmax, do not: graphs hold them. Nor do attributes of self and cls.
    """
    found: list[tuple[int, str]] = []
    within = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    own = {"self", "cls", "aten", "_ATEN"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names if is_private(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(node.lineno, name) for name in names if is_private(name)]
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            if name is not None and id(node) not in within and is_private(name):
                found.append((node.lineno, name))
            elif node.attr in PRIVATE_MEMBERS and dotted(node.value) not in own:
                found.append((node.lineno, ast.unparse(node)))
        elif isinstance(node, ast.Call) and str(dotted(node.func)).endswith(("attr", "attrgetter")):
            names = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            found += [(node.lineno, str(name)) for name in names if name in PRIVATE_MEMBERS]
    return [f"{line}: {name}" for line, name in sorted(found)]


def is_private(name: str) -> bool:
    """Whether a dotted name is of a private part of torch."""
    first, *rest = name.split(".")
    if first != "torch" or rest[:1] == ["ops"]:
        return False
    return rest[:2] == ["fx", "experimental"] or any(p.startswith("_") and not p.endswith("__") for p in rest)


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` for a chain of attributes that begins with a name; None for other expressions."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


@pytest.mark.parametrize("path", OUTSIDE.values(), ids=OUTSIDE)
def test_no_other_module_names_one(path: Path) -> None:
    assert private_parts_of_torch(ast.parse(path.read_text())) == [], "put it in cuesta/torch_private"


@pytest.mark.parametrize(
    "text",
    [
        "import torch._dynamo",
        "import torch._C as c",
        "from torch._ops import OpOverload",
        "from torch import _guards",
        "from torch.utils import _pytree as pytree",
        "def f():\n    from torch.fx.experimental.symbolic_shapes import ShapeEnv",
        "x: torch._ops.OpOverload",
        "torch._dynamo.config.repro_after = None",
        "torch.fx.experimental.symbolic_shapes.guard_or_false(x)",
        "torch.backends.__allow_nonbracketed_mutation()",
        "torch.cuda._is_in_bad_fork()",
        "f(x)._is_zerotensor()",
        "node.target._schema",
        "hasattr(op, '_schema')",
        "version = operator.attrgetter('_version')",
    ],
)
def test_a_private_part_of_torch_is_found(text: str) -> None:
    assert len(private_parts_of_torch(ast.parse(text))) == 1


@pytest.mark.parametrize(
    "text",
    ["torch.ops.aten._softmax", "torch.__version__", "self._base", "torch.compiler.reset()", "from torch import fx"],
)
def test_a_public_part_of_torch_is_not(text: str) -> None:
    assert private_parts_of_torch(ast.parse(text)) == []
