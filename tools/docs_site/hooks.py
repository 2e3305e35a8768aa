"""Hooks of mkdocs: adds the pages that are made from code, and turns links that leave docs/ to their pages.

mkdocs.yml names this file. https://www.mkdocs.org/user-guide/configuration/#hooks
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from cuesta.tools.docs_site.pages import OUTSIDE, decisions, example_pages, generated_pages

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_DECISIONS = "decisions/README.md"
_LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def on_config(config: MkDocsConfig) -> None:
    """Lists the decisions and the examples in the navigation, in the places where mkdocs.yml names their overviews."""
    _extend(config.nav, _DECISIONS, [f"decisions/{name}" for name in decisions()])
    _extend(config.nav, "examples/index.md", sorted(example_pages()))


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pages that are made from code."""
    from mkdocs.structure.files import File

    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turns each link to a file outside of docs/ into a link to that file's page on the site, and lists the decisions
    on their overview. A decision's status and date are lines of their own."""
    if page.file.src_uri.startswith("decisions/0"):
        markdown = markdown.replace("\nDate: ", "  \nDate: ", 1)
    if page.file.src_uri == _DECISIONS:
        markdown += "\n## All of them\n\n" + "".join(f"- [{title}]({name})\n" for name, title in decisions().items())
    folder = posixpath.dirname(page.file.src_uri)
    return _LINK.sub(lambda found: inside(found[1], folder), markdown)


def inside(target: str, folder: str) -> str:
    """A link of a page in `folder`, which is relative to docs/, in terms of the site.

    Raises ValueError if a link leaves docs/ for a file that has no page."""
    path = posixpath.normpath(posixpath.join("docs", folder, target))
    if posixpath.isabs(target) or path.startswith("docs/"):
        return target
    if path not in OUTSIDE:
        raise ValueError(f"the link {target} leads to {path}, which has no page: {', '.join(OUTSIDE)} have")
    return posixpath.relpath(OUTSIDE[path], folder or ".")


def _extend(nav: Any, overview: str, pages: list[str]) -> None:
    """Puts pages behind the overview in the section of the navigation that has it."""
    for entry in nav if isinstance(nav, list) else nav.values():
        if isinstance(entry, list) and overview in entry:
            entry += [page for page in pages if page not in entry]
        elif isinstance(entry, list | dict):
            _extend(entry, overview, pages)
