"""The documentation site: it builds without a warning, every link leads somewhere, and all that is defined is on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from cuesta.dialects.cuesta import pointwise, reduction
from cuesta.dialects.cuesta.dialect import Cuesta
from cuesta.dialects.open_op import OPEN_OPS
from cuesta.frontend.fx_pipelines import FX_STAGES
from cuesta.options import list_options
from cuesta.passes.infra.registry import all_passes
from cuesta.tools.docs_site import pictures
from cuesta.tools.docs_site.commands_page import commands
from cuesta.tools.docs_site.hooks import inside
from cuesta.tools.docs_site.stages_page import targets
from cuesta.tools.markdown import prose, table

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)  # strict: a link that leads nowhere, or a page that no menu has, is an error
    return folder


def _ids(page: Path) -> set[str]:
    return set(re.findall(r'<h\d id="([^"]+)"', page.read_text()))


def test_every_pass_has_a_section(site: Path) -> None:
    names = {*all_passes(), *(one.name for stage in FX_STAGES for one in stage.passes)}
    assert names <= _ids(site / "reference" / "passes.html")


def test_every_stage_has_its_passes(site: Path) -> None:
    page = (site / "reference" / "stages.html").read_text()
    for stages in targets().values():
        for stage in stages.values():
            assert f'id="{stage.name}' in page
            ours = {text.partition("{")[0] for text in stage.passes} & {*all_passes()}
            assert all(f'href="passes.html#{name}"' in page for name in ours)


def test_every_op_is_there(site: Path) -> None:
    page = (site / "reference" / "ops.html").read_text()
    rows = {f"cuesta.{row.name}" for row in (*pointwise.ROWS, *reduction.ROWS)}
    names = {kind.OPERATION_NAME for kind in Cuesta.operations} | rows | {*OPEN_OPS}
    assert {name for name in names if f">{name}<" not in page} == set()


def test_every_command_and_option_is_there(site: Path) -> None:
    assert {*commands()} <= _ids(site / "reference" / "commands.html")
    options = (site / "options.html").read_text()
    assert all(f"<code>{name}</code>" in options for name in list_options())


def test_lists_are_lists(site: Path) -> None:
    """The site's Markdown wants a blank line before a list, where GitHub's does without."""
    for page in site.rglob("*.html"):
        for paragraph in re.findall(r"<p>(.*?)</p>", page.read_text(), re.DOTALL):
            assert "\n- " not in paragraph, f"{page.name} wants a blank line before the list in {paragraph}"


def test_lists_within_lists_are_indented_by_four() -> None:
    """With less, the site shows their entries as entries of the list around them."""
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        assert not re.findall(r"^ {1,3}[-*] .*", page.read_text(), re.MULTILINE), page


def test_status_and_date_of_a_decision_are_two_lines(site: Path) -> None:
    for page in (site / "decisions").glob("0*.html"):
        assert re.search(r"<p>Status: .*<br />\nDate: [\d-]+</p>", page.read_text()), page.name


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """The site works offline."""
    for page in site.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|img|link rel="(?:stylesheet|preload)")[^>]*(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not fetched, f"{page.name} fetches {fetched}"


def test_links_out_of_docs() -> None:
    assert inside("../SECURITY.md", "") == "security.md"
    assert inside("../../SECURITY.md", "guide") == "../security.md"
    assert inside("options.md", "guide") == "options.md"
    with pytest.raises(ValueError, match=r"leads to tools/walk\.py, which has no page"):
        inside("../tools/walk.py", "")


def test_docstrings_become_markdown() -> None:
    about = "Sums x[i].\n\n    before  →  after\n\nThe kinds are\n- a\n- b"
    assert prose(about) == "Sums x\\[i\\].\n\n```text\nbefore  →  after\n```\n\n\nThe kinds are\n\n- a\n- b"
    assert table(["a"], [["x|y"]]) == "| a |\n| --- |\n| x\\|y |\n"


def test_pictures_show_the_pages_numbers() -> None:
    page = pictures.PAGE.read_text()
    cases = pictures.cases(page)
    assert "NVIDIA" in pictures.machine(page)
    assert len(cases) >= 13 and all(min(*case.speed, *case.seconds) > 0 for case in cases)
    for name, numbers in (("speed", "speed"), ("compile_time", "seconds")):
        drawn = (pictures.FOLDER / f"{name}.svg").read_text()
        for case in cases:
            assert all(f"<!-- {number:.1f} -->" in drawn for number in getattr(case, numbers)), f"renew {name}.svg"
    with pytest.raises(ValueError, match="no table"):
        pictures.cases("nothing")
