"""Prepare the sources of the site: the pages of `docs/`, the generated ones, and the navigation.

`python -m website.sources` does it for `script/docs`; the tests do it in their own directory.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from website import api_pages, cli_page, navigation, reason_pages

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "build/docs"
CONTENTS = "<!-- contents -->"
DIAGRAM = re.compile(r"```mermaid\n")
"""A diagram that a repository viewer draws; the site shows its text, and loads no program to draw it."""
LINK = re.compile(r"\[([^]]*)\]\(([\w./-]+)(?:#[^)]*)?\)")
"""A link to a file. Files outside `docs/`, such as `../SECURITY.md`, are read in the repository."""


def lay_out(to: Path, docs: Path = ROOT / "docs") -> Path:
    """Write every source of the site to a directory, replacing what is there."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(docs, to)
    for page in to.rglob("*.md"):
        page.write_text(adapted(page.read_text(), page.parent, to))
    generated = {**dict(api_pages.pages()), **dict(reason_pages.pages()), cli_page.FILE: cli_page.page()}
    for name, text in generated.items():
        (to / name).parent.mkdir(exist_ok=True, parents=True)
        (to / name).write_text(text)
    index = to / "index.md"
    index.write_text(index.read_text().replace(CONTENTS, contents(to)))
    return to


def adapted(text: str, folder: Path, docs: Path) -> str:
    """Return a page as the site needs it: links to files outside the site become plain text."""

    def kept(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        inside = target.is_relative_to(docs.resolve())
        planned = inside and target.relative_to(docs.resolve()).as_posix() in missing
        return link[0] if inside and not planned else link[1]

    missing = {page.file for page in navigation.planned() if not (docs / page.file).is_file()}
    return DIAGRAM.sub("```text\n", LINK.sub(kept, text))


def contents(docs: Path) -> str:
    """Return the contents of the front page: each section as a table by intent, and as a part of the navigation."""
    reasons = navigation.tree("Reason codes", (f"All codes <{navigation.REASONS}/index.md>",))
    return "\n".join((*map(_listing, navigation.sections(docs)), reasons))


def _listing(section: navigation.Section) -> str:
    rows = (f"| {page.intent} | [{page.title}]({page.file}) |" for page in section.pages)
    tree = navigation.tree(section.title, (f"{page.title} <{page.file}>" for page in section.pages))
    return "\n".join((f"## {section.title}\n", "| I want to … | read |", "|---|---|", *rows, "", tree))


if __name__ == "__main__":
    lay_out(SOURCES)
