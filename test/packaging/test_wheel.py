"""What the wheel and the source distribution hold, and what they say of themselves."""

from __future__ import annotations

import email.message
import email.parser
import importlib
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

import cuesta
from cuesta.tools.release.check_dist import FOLDERS, ROOT, build, copy_sources, differences, examples, files_of, only

pytest.importorskip("build", reason="needs the extra `dist`, which make's environment has")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, the wheel from it in dist/, and the wheel from the checkout in again/."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "sources").mkdir()
    copy_sources(folder / "sources")
    build(folder / "sources", folder / "dist")
    build(folder / "sources", folder / "again", "--wheel")
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return only(built / "dist", "*.whl")


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        return email.parser.Parser().parsestr(archive.read(f"{info(wheel)}/METADATA").decode())


def info(wheel: Path) -> str:
    return f"cuesta-{cuesta.__version__}.dist-info"


def in_checkout() -> set[str]:
    """The files of the package by their names in a wheel: cuesta/ itself, and each folder that it links to once."""
    found = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):  # does not follow links
            inner = path.relative_to(ROOT)
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
                found.add(str(inner if folder == "cuesta" else Path("cuesta") / inner))
    return found


def test_each_file_of_the_package_is_there_once_and_nothing_else(wheel: Path) -> None:
    names = {name for name in files_of(wheel) if not name.startswith(info(wheel))}
    assert names == in_checkout()
    assert "cuesta/py.typed" in names and "cuesta/passes/pipelines.py" in names


def test_it_holds_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if re.search(r"(^|/)(test|tests)/|(^|/)(test_|conftest)|\.mlir$", name)]


def test_the_source_distribution_makes_the_same_wheel(built: Path, wheel: Path) -> None:
    assert differences(files_of(wheel), files_of(only(built / "again", "*.whl"))) == []


def test_the_source_distribution_holds_the_papers_and_no_links(built: Path) -> None:
    with tarfile.open(only(built / "dist", "*.tar.gz")) as archive:
        members = archive.getmembers()
    names = {member.name.partition("/")[2] for member in members}
    papers = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"}
    assert papers <= names
    assert not [member.name for member in members if member.issym() or member.islnk()]
    assert not [name for name in names if name.startswith(("test/", "docs/", "dialects/"))]


def test_the_licence_is_there_and_named(wheel: Path, metadata: email.message.Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0 WITH LLVM-exception"
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{info(wheel)}/licenses/LICENSE").decode()
    assert text == (ROOT / "LICENSE").read_text()
    for part in ("Version 2.0, January 2004", "END OF TERMS AND CONDITIONS", "---- LLVM Exceptions to the Apache 2.0"):
        assert part in text


def test_versions_agree(metadata: email.message.Message) -> None:
    assert metadata["Version"] == cuesta.__version__
    assert f"\nversion: {cuesta.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {cuesta.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_pythons_agree(metadata: email.message.Message) -> None:
    named = [value.rpartition(" ")[2] for value in metadata.get_all("Classifier", []) if " :: 3." in value]
    first, last = (int(version.partition(".")[2]) for version in (named[0], named[-1]))
    assert named == [f"3.{minor}" for minor in range(first, last + 1)]
    assert metadata["Requires-Python"] == f"<3.{last + 1},>=3.{first}"


def test_torch_has_no_upper_bound(metadata: email.message.Message) -> None:
    needed = [value for value in metadata.get_all("Requires-Dist", []) if "extra ==" not in value]
    assert "torch>=2.11" in needed
    assert not [value for value in needed if value.startswith("triton") and "<" in value]  # torch names its Triton


def test_entry_points_are_there(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{info(wheel)}/entry_points.txt").decode()
    found = dict(re.findall(r"^(\S+) = (\S+)$", text, re.MULTILINE))
    assert found.keys() == {"cuesta", "cuesta-bench", "cuesta-demo", "cuesta-opt", "cuesta-run"}
    for name in found.values():
        module, _, attribute = name.partition(":")
        assert callable(getattr(importlib.import_module(module), attribute))


def test_readme_has_an_example_that_make_dist_runs() -> None:
    assert any('backend="cuesta"' in example for example in examples((ROOT / "README.md").read_text()))
