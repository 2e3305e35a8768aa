"""torch.export → cuesta.compile → a file → cuesta.load."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta
from cuesta.errors import ArtefactError, InputError, OptionError, Unsupported
from cuesta.export.exported_program import ExportedProgram
from cuesta.reports import compile_report


@pytest.fixture(autouse=True)
def fresh_report() -> Iterator[None]:
    """Dynamo, whose reset forgets other reports, has no part in these."""
    yield
    compile_report.clear()


class Model(nn.Module):
    """Tied weights, buffers that it updates, keywords, containers, constants, attention, an output that is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("order", torch.arange(7, -1, -1), persistent=False)
        self.scale = torch.tensor([0.5, 2.0]).repeat(4)

    def forward(self, ids: Tensor, pair: tuple[Tensor, float], *, flag: bool, bias: Tensor) -> dict[str, Any]:
        self.calls.add_(1)
        x, factor = pair
        h = self.norm(self.embed(ids) * self.scale) + bias[:, self.order]
        a = nn.functional.scaled_dot_product_attention(*[h.view(1, 2, 2, 8)] * 3)
        return {"logits": self.head(h) * factor, "attention": [a, flag], "same": x}


def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.tensor([1, 5, 9, 1]), (torch.randn(3), 1.5)), {"flag": True, "bias": torch.randn(4, 8)}


def exported(training: bool = False) -> tuple[Model, torch.export.ExportedProgram]:
    model = Model().train(training)
    args, kwargs = arguments()
    with torch.no_grad():
        return model, torch.export.export(model, args, kwargs)


@pytest.fixture(scope="module")
def compiled_model() -> tuple[Model, ExportedProgram]:
    model, program = exported()
    return model, cuesta.compile(program)


def check_same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    torch.testing.assert_close(actual, expected)
    assert actual["same"] is not None and actual["attention"][1] is True


@pytest.mark.parametrize("training", [False, True])
def test_it_is_called_like_the_module(training: bool, tmp_path: Path) -> None:
    model, program = exported(training)
    compiled = cuesta.compile(program)
    path = compiled.save(tmp_path / "model.cuesta")
    loaded = cuesta.load(path)
    for call in (compiled, loaded):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        args, kwargs = arguments()
        with torch.no_grad():
            expected = model(*args, **kwargs)
        actual = call(*args, **dict(reversed(kwargs.items())))
        check_same(actual, expected)
        assert actual["same"] is args[1][0]
        state = call.state_dict()
        torch.testing.assert_close({name: state[name] for name in before if name in state}, dict(model.state_dict()))
        model.load_state_dict(before)
    assert loaded.state_dict()["head.weight"] is not None
    (report,) = [g for g in cuesta.report().graphs if g.name == "exported"][-1:]
    assert report.fallback is None and report.launches


def test_weights_that_share_memory_go_on_sharing_it(
    compiled_model: tuple[Model, ExportedProgram], tmp_path: Path
) -> None:
    state = cuesta.load(compiled_model[1].save(tmp_path / "m")).state_dict()
    tied = [value.data_ptr() for name, value in state.items() if name in ("embed.weight", "head.weight")]
    assert len(set(tied)) == 1
    with zipfile.ZipFile(tmp_path / "m") as archive:
        sizes = [i.file_size for i in archive.infolist() if i.filename.startswith("storage/")]
    assert sizes.count(10 * 8 * 4) == 1


BLOCKED = """
    import sys
    for name in ("torch_mlir", "triton", "transformers"):
        sys.modules[name] = None
    import torch, cuesta
    torch.manual_seed(0)
    program = cuesta.load(sys.argv[1])
    inputs = torch.load(sys.argv[2])
    torch.save(program(*inputs["args"], **inputs["kwargs"]), sys.argv[3])
    assert not any(name.split(".")[0] in ("torch_mlir", "triton") and module for name, module in sys.modules.items())
    assert "cuesta._mlir" not in sys.modules
"""


def test_a_process_without_mlir_loads_it(compiled_model: tuple[Model, ExportedProgram], tmp_path: Path) -> None:
    model, program = compiled_model
    path = program.save(tmp_path / "model.cuesta")
    args, kwargs = arguments()
    torch.save({"args": args, "kwargs": kwargs}, tmp_path / "inputs")
    command = [sys.executable, "-c", textwrap.dedent(BLOCKED), path, tmp_path / "inputs", tmp_path / "outputs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        check_same(torch.load(tmp_path / "outputs"), model(*args, **kwargs))


def test_weights_apart(compiled_model: tuple[Model, ExportedProgram], tmp_path: Path) -> None:
    model, program = compiled_model
    path = program.save(tmp_path / "m", weights=False)
    with pytest.raises(InputError, match="'embed.weight' is missing"):
        cuesta.load(path)
    weights = program.state_dict()
    args, kwargs = arguments()
    with torch.no_grad():
        check_same(cuesta.load(path, weights)(*args, **kwargs), model(*args, **kwargs))
    with pytest.raises(InputError, match=r"'embed.weight' is torch.float32 of sizes \[3\]"):
        cuesta.load(path, {**weights, "embed.weight": torch.ones(3)})


def double(x: Tensor) -> Tensor:
    return x * 2


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def compiled(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return cuesta.compile(torch.export.export(Function(function), args), **kwargs)


def test_other_strides_are_taken_and_inputs_are_written() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        y.add_(x)
        return x * y

    program = compiled(f, torch.ones(3, 4), torch.ones(3, 4))
    x, y = torch.randn(4, 3).t(), torch.randn(4, 3).t()
    expected_y = y.clone()
    expected = f(x, expected_y)
    torch.testing.assert_close(program(x, y), expected)
    torch.testing.assert_close(y, expected_y)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((torch.ones(4),), r"torch.float32 of sizes \[4\]; .* of sizes \[3\]"),
        ((torch.ones(3, dtype=torch.float64),), "torch.float64"),
        ((3.0,), "is a float; a tensor was exported"),
        ((torch.ones(3), torch.ones(3)), r"takes 1 positional argument \(args_0\), 2 were given"),
        ((), r"takes 1 positional argument \(args_0\), 0 were given"),
        (([torch.ones(3)],), "positional argument 0 is a list; the program was exported with a single value"),
        ((torch.ones(3, device="meta"),), "is on meta; the program runs on cpu"),
    ],
)
def test_wrong_arguments_are_named(doubling: Any, args: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        doubling(*args)


def test_the_first_difference_of_containers_is_named() -> None:
    x = torch.ones(3)

    def f(pair: tuple[Tensor, list[Tensor]], *, more: dict[str, Tensor]) -> Tensor:
        return pair[0] + pair[1][0] + more["a"]

    class Keywords(nn.Module):
        def forward(self, pair: Any, *, more: Any) -> Tensor:
            return f(pair, more=more)

    program = cuesta.compile(torch.export.export(Keywords(), ((x, [x]),), {"more": {"a": x}}))
    assert program((x, [x]), more={"a": x}).tolist() == [3.0] * 3
    exported = "; the program was exported with"
    for args, more, words in (
        (((x, [x]), x), {"a": x}, r"takes 1 positional argument \(a tuple\), 2 were given"),
        (((x, [x], x),), {"a": x}, f"positional argument 0 is a tuple of 3{exported} a tuple of 2"),
        (((x, (x,)),), {"a": x}, rf"positional argument 0\[1\] is a tuple{exported} a list"),
        (((x, [x, x]),), {"a": x}, rf"positional argument 0\[1\] is a list of 2{exported} a list of 1"),
        (((x, [x]),), {"b": x}, f"argument 'more' is a dict of 'b'{exported} a dict of 'a'"),
        (((x, [x]),), {"a": [x]}, rf"argument 'more'\['a'\] is a list{exported} a single value"),
    ):
        with pytest.raises(InputError, match=words):
            program(*args, more=more)


@pytest.mark.parametrize("wrong", [nn.Linear(3, 3), double, None, torch.fx.symbolic_trace(nn.ReLU())])
def test_what_was_not_exported_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"takes what torch\.export\.export gives, got a .*: export it first, .*"):
        cuesta.compile(wrong)


def test_a_constant_is_what_was_exported() -> None:
    program = compiled(lambda x, n: x * n, torch.ones(3), 2)
    torch.testing.assert_close(program(torch.ones(3), 2), torch.full((3,), 2.0))
    for other in (3, 2.0, True):
        with pytest.raises(InputError, match="the export fixed it at 2"):
            program(torch.ones(3), other)
    with pytest.raises(InputError, match="keywords"):
        program(torch.ones(3), n=2)


def test_sizes_that_the_export_left_open(tmp_path: Path) -> None:
    def f(x: Tensor, y: Tensor, count: Tensor) -> tuple[Tensor, Tensor, int]:
        count.add_(1)
        return (x * 2).softmax(-1) @ y, x.flatten() + x.shape[0], x.shape[0]

    n, k = torch.export.Dim("n", min=2, max=64), torch.export.Dim("k", min=2)
    shapes = (({0: n, 1: k}, {0: k}, None),)
    inputs = (torch.randn(3, 5), torch.randn(5, 7), torch.zeros(2))
    program = cuesta.compile(torch.export.export(Function(f), inputs, dynamic_shapes=shapes))
    loaded = cuesta.load(program.save(tmp_path / "f"))
    for call in (program, loaded):
        for rows, columns in ((3, 5), (64, 2), (8, 33)):
            x, y, count = torch.randn(rows, columns), torch.randn(columns, 7), torch.zeros(2)
            expected = f(x, y, count.clone())
            torch.testing.assert_close(call(x, y, count), expected)
            torch.testing.assert_close(call(x.t().contiguous().t(), y, count), expected)
            assert count.tolist() == [2, 2]
        for rows, words in ((1, "size 1 in dimension 0; the export admits 2 to 64"), (65, "size 65")):
            with pytest.raises(InputError, match=words):
                call(torch.randn(rows, 5), torch.randn(5, 7), torch.zeros(2))
        with pytest.raises(InputError, match=r"of sizes \[6, 7\]; the program was exported for .* \[5, 7\]"):
            call(torch.randn(3, 5), torch.randn(6, 7), torch.zeros(2))
        with pytest.raises(InputError, match="no dimension 1"):
            call(torch.randn(3), torch.randn(6, 7), torch.zeros(2))


def test_what_no_program_holds_is_refused() -> None:
    def branch(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    with pytest.raises(Unsupported, match="cond"):
        compiled(branch, torch.ones(3))
    with pytest.raises(Unsupported, match="nonzero.default: .* depends on the data"):
        compiled(torch.nonzero, torch.ones(3))


def test_options_are_checked_and_counted(tmp_path: Path) -> None:
    def f(x: Tensor) -> Tensor:
        return x.exp().sin()

    compiled(f, torch.ones(3), options={"fusion": False})
    assert cuesta.report().graphs[-1].launches == 2
    with pytest.raises(OptionError, match="'cpu'|cpu"):
        compiled(f, torch.ones(3), target="gpu")
    with pytest.raises(OptionError, match="unknown option"):
        compiled(f, torch.ones(3), options={"fuse": True})


@pytest.fixture(scope="module")
def doubling() -> Any:
    return compiled(double, torch.ones(3))


@pytest.fixture
def file(doubling: Any, tmp_path: Path) -> Path:
    path: Path = doubling.save(tmp_path / "double.cuesta")
    return path


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["program.json"])
    change(content)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, "program.json": json.dumps(content)}.items():
            archive.writestr(name, data)
    return path


def test_another_torch_or_cpu_is_refused(file: Path) -> None:
    assert cuesta.load(file)(torch.ones(3)).tolist() == [2.0] * 3
    rewritten(file, lambda content: content.update(torch="2.4.0"))
    with pytest.raises(ArtefactError, match=r"made with torch 2\.4\.0, .* this is torch 2"):
        cuesta.load(file)
    rewritten(
        file, lambda c: c.update(torch=torch.__version__.split("+")[0], instructions=[*c["instructions"], "avx9"])
    )
    with pytest.raises(ArtefactError, match="made for a CPU that has avx9, which this one lacks"):
        cuesta.load(file)
    rewritten(file, lambda content: content.update(format=99))
    with pytest.raises(ArtefactError, match="of format 99"):
        cuesta.load(file)


def test_a_damaged_or_foreign_file_is_refused(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    for number, bad in enumerate((b"", b"text", data[: len(data) // 2], data[:2000] + b"?" * 50 + data[2050:])):
        path = tmp_path / str(number)
        path.write_bytes(bad)
        with pytest.raises(ArtefactError, match=f"{path}"):
            cuesta.load(path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("program.json", "{}")
    with pytest.raises(ArtefactError, match="not a program that cuesta saved"):
        cuesta.load(tmp_path / "other.zip")
    with pytest.raises(FileNotFoundError):
        cuesta.load(tmp_path / "none")


def test_a_save_that_fails_leaves_what_was_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = cuesta.load(file)
    before = file.read_bytes()

    def full(self: object, name: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space"):
        program.save(file)
    assert file.read_bytes() == before and [p.name for p in file.parent.iterdir()] == [file.name]


def test_a_copy_cannot_take_the_place_of_elements_that_share_places() -> None:
    class RowSums(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(-1)

    windows = torch.arange(12.0).as_strided((7, 6), (1, 1))
    program = cuesta.compile(torch.export.export(RowSums(), (windows,)))
    torch.testing.assert_close(program(windows), windows.sum(-1))
    with pytest.raises(InputError, match=r"'x' has strides \[6, 1\]; .* exported for strides \[1, 1\]"):
        program(torch.randn(7, 6))


class _AddsOne(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.add_(1)
        return y * 2, x


def test_a_written_argument_that_is_returned_is_itself() -> None:
    program = cuesta.compile(torch.export.export(_AddsOne(), (torch.ones(4), torch.ones(4))))
    x = torch.ones(4)
    _, returned = program(x, torch.ones(4))
    assert returned is x
    torch.testing.assert_close(x, torch.full((4,), 2.0))


@pytest.mark.parametrize("offset", [0, 1, 4])
def test_it_reads_arguments_that_share_memory_before_it_writes_one(offset: int) -> None:
    exported = torch.export.export(_AddsOne(), (torch.ones(4), torch.ones(4)))
    program = cuesta.compile(exported)
    wanted, actual = torch.arange(8.0), torch.arange(8.0)
    expected = exported.run_decompositions({}).module()(wanted[:4], wanted[offset : offset + 4])
    torch.testing.assert_close(program(actual[:4], actual[offset : offset + 4]), expected)
    torch.testing.assert_close(actual, wanted)


def test_a_view_of_a_whole_argument_is_another_tensor() -> None:
    class Squeezed(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x.squeeze(0), x

    x = torch.ones(())
    program = cuesta.compile(torch.export.export(Squeezed(), (x,)))
    view, same = program(x)
    assert same is x
    assert view is not x and view.data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:].view(torch.int32),
        lambda x: x.view(torch.int64),
        lambda x: x.diagonal(1),
        lambda x: x.unfold(1, 3, 2)[..., 1],
        lambda x: x.as_strided((3, 2), (1, 2)),
        lambda x: torch.view_as_complex(x.view(4, 3, 2)).t(),
    ],
    ids=["dtype", "wider", "diagonal", "unfold", "as_strided", "complex"],
)
def test_views_of_an_argument_share_its_memory(view: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(5, 6)[1:]
    program = compiled(lambda x: (view(x), view(x), view(x + 1)), torch.randn(4, 6))
    results = program(x)
    expected = view(x)
    for result in results[:2]:
        assert (result.data_ptr(), result.dtype) == (expected.data_ptr(), expected.dtype)
        assert (result.shape, result.stride()) == (expected.shape, expected.stride())
    assert torch.equal(results[2], view(x + 1))
    x.add_(2)
    assert torch.equal(results[0], expected)
