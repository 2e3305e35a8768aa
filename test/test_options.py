"""torch.compile's modes and options, and the environment variables."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cuesta.errors import OptionError
from cuesta.options import (
    MODE_EFFECTS,
    Environment,
    Options,
    _warn_of_unknown,
    describe_options,
    list_mode_options,
    list_options,
    options_of,
)
from cuesta.targets import Target
from cuesta.tools.options_page import PAGE, renewed

NOTHING = Environment()


def test_the_options_that_torch_documents_are_taken() -> None:
    documented = ["epilogue_fusion", "max_autotune", "fallback_random", "shape_padding"]
    documented += ["triton.cudagraphs", "trace.enabled", "trace.graph_diagram"]
    assert set(documented) <= set(list_options())
    assert Options.from_torch(None, dict.fromkeys(documented, True), NOTHING).cudagraphs


def test_every_mode_of_torch_is_taken() -> None:
    import torch._inductor

    assert set(list_mode_options()) >= set(torch._inductor.list_mode_options())
    for mode, options in list_mode_options().items():
        assert list_mode_options(mode) == options
        Options.from_torch(mode, None, NOTHING)


def test_what_is_listed_is_a_copy() -> None:
    list_mode_options("lite")["fusion"] = "broken"
    list_mode_options()["lite"]["fusion"] = "broken"
    assert list_mode_options("lite")["fusion"] is False


def test_an_option_goes_before_its_mode() -> None:
    assert Options.from_torch("lite", None, NOTHING).opt_level == 1
    assert Options.from_torch("lite", {"opt_level": 2}, NOTHING).opt_level == 2


def test_no_mode_is_the_default_mode() -> None:
    assert Options.from_torch(None, None, NOTHING) == Options.from_torch("default", {}, NOTHING) == Options()


def test_dashes_are_underscores() -> None:
    assert Options.from_torch(None, {"fallback-random": True}, NOTHING).fallback_random


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        ("max_autotune", None, ["'max_autotune'", "did you mean 'max-autotune'", "reduce-overhead"]),
        (3, None, ["unknown mode 3", "default"]),
        (["default"], None, ["unknown mode", "default"]),
        (None, {"epilog_fusion": True}, ["'epilog_fusion'", "did you mean 'epilogue_fusion'", "trace.enabled"]),
        (None, {"cudagraphs": True}, ["'cudagraphs'", "triton.cudagraphs"]),
        (None, {7: True}, ["unknown option 7"]),
        (None, {"fusion": 1}, ["'fusion'", "bool", "1 (int)"]),
        (None, {"trace.enabled": "yes"}, ["'trace.enabled'", "bool", "'yes' (str)"]),
        (None, {"opt_level": 4}, ["'opt_level'", "0 to 3", "4 (int)"]),
        (None, {"opt_level": True}, ["'opt_level'", "0 to 3", "True (bool)"]),
        (None, {"gemm": "kernels"}, ["'gemm'", "did you mean 'kernel'", "auto, library, kernel", "'kernels' (str)"]),
        (None, {"memory_limit": 0}, ["'memory_limit'", "number of bytes", "0 (int)"]),
        (None, {"memory_limit": 1e9}, ["'memory_limit'", "number of bytes", "(float)"]),
        (None, {"dump": 5}, ["'dump'", "folder", "5 (int)"]),
        (None, {"cache_dir": ""}, ["'cache_dir'", "folder"]),
        (None, {"cache_dir": "~no_such_user/x"}, ["'cache_dir'", "~no_such_user"]),
        (None, ["fusion"], ["dict", "list"]),
    ],
)
def test_wrong_ones_are_named(mode: Any, options: Any, words: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        Options.from_torch(mode, options, NOTHING)
    for word in words:
        assert word in str(caught.value)


def test_list_mode_options_of_a_wrong_mode() -> None:
    with pytest.raises(RuntimeError, match="reduce-overhead"):  # as torch._inductor's: a RuntimeError
        list_mode_options("reduce_overhead")


def test_the_environment_fills_what_no_option_says(tmp_path: Path) -> None:
    environment = Environment.read({"CUESTA_DUMP": str(tmp_path / "a"), "CUESTA_CACHE_DIR": str(tmp_path / "c")})
    chosen = Options.from_torch(None, None, environment)
    assert (chosen.dump, chosen.cache_root) == (tmp_path / "a", tmp_path / "c")
    chosen = Options.from_torch(None, {"dump": tmp_path / "b", "cache_dir": str(tmp_path / "d")}, environment)
    assert (chosen.dump, chosen.cache_root) == (tmp_path / "b", tmp_path / "d")


def test_the_environment_is_read_at_each_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUESTA_DUMP", raising=False)
    assert Options.from_torch().dump is None
    monkeypatch.setenv("CUESTA_DUMP", str(tmp_path))
    assert Options.from_torch().dump == tmp_path


def test_empty_variables() -> None:
    environment = Environment.read({"CUESTA_DUMP": "", "CUESTA_CACHE_DIR": ""})
    assert environment == Environment(dump=None, cache_dir=None)


def test_trace_enabled_dumps_to_a_default_folder(tmp_path: Path) -> None:
    for option in ("trace.enabled", "trace.graph_diagram"):
        assert Options.from_torch(None, {option: True}, NOTHING).dump == Path("cuesta_dump").absolute()
    assert Options.from_torch(None, {"trace.enabled": True, "dump": tmp_path}, NOTHING).dump == tmp_path


def test_no_cache(tmp_path: Path) -> None:
    assert Options.from_torch(None, {"cache": False, "cache_dir": tmp_path}, NOTHING).cache_root is None


def test_the_key_holds_what_changes_code_and_nothing_else(tmp_path: Path) -> None:
    plain = Options()
    for field in dataclasses.fields(Options):
        other = {
            "bool": not field.default,
            "int": 0,
            "int | None": 1 << 20,
            "str": "other",
            "Path | None": tmp_path,
            "Target | None": Target("tt"),
        }[str(field.type)]
        changed = dataclasses.replace(plain, **{field.name: other})
        assert (changed.key() != plain.key()) == field.metadata["affects_code"], field.name


def test_every_option_is_described() -> None:
    lines = describe_options().splitlines()
    assert [line.partition(":")[0] for line in lines] == list_options()
    assert all(field.metadata["description"].endswith(".") for field in dataclasses.fields(Options))


def test_the_page_of_options_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert renewed(text) == text, "renew it: python -m cuesta.tools.options_page"
    with pytest.raises(ValueError, match=r"no table with the header \| mode"):
        renewed(text.replace("| mode |", "| modes |"))


def test_every_mode_says_what_it_does() -> None:
    assert list(MODE_EFFECTS) == list(list_mode_options())


def test_every_variable_is_read(tmp_path: Path) -> None:
    names = [name for name, *_ in options_of(Environment)]
    read = Environment.read(dict.fromkeys(names, str(tmp_path)))
    for field in dataclasses.fields(Environment):
        assert getattr(read, field.name) not in (None, False), field.name


def test_a_misspelt_variable_is_warned_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    _warn_of_unknown.cache_clear()
    variables = {"CUESTA_CACHE_DRI": "/x", "CUESTA_NOTHING_NEAR": "1", "CUESTA_FULL": "1", "CUESTA_DUMP": ""}
    for _ in range(2):
        assert Environment.read(variables).dump is None
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("the environment variable CUESTA_CACHE_DRI has no effect; did you mean 'CUESTA_CACHE_DIR'")
    assert second.startswith("the environment variable CUESTA_NOTHING_NEAR has no effect; cuesta reads CUESTA_DUMP, ")
    _warn_of_unknown.cache_clear()


def test_a_folder_of_a_user_who_does_not_exist() -> None:
    for name in ("CUESTA_CACHE_DIR", "CUESTA_DUMP"):
        with pytest.raises(OptionError, match=f"{name} names no folder: '~nosuchuser/x'"):
            Environment.read({name: "~nosuchuser/x"})


def test_options_without_effect_say_so() -> None:
    assert "No effect" in next(d for d in describe_options().splitlines() if d.startswith("shape_padding"))
