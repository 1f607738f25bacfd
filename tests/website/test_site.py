"""The site holds together: every page is named and linked, nothing comes from elsewhere, and search works from disk."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from html import unescape
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag

import pytest

from standfast.failure import CATALOGUE
from website import navigation
from website.reason_texts import TEXTS
from website.sources import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Page

DOCS = ROOT / "docs"
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.timeout(300)  # the first test waits for the build
NO_PAGES = {"search.html"}
"""What Sphinx adds: a form, which every page has."""


class Article(HTMLParser):
    """The links inside the text of a page, and everything that the page loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self._inside = False
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._inside = self._inside or tag == "article"
        if tag == "a" and self._inside:
            self.links.add(given.get("href", ""))
        if tag in {"script", "img", "iframe"} and "src" in given:
            self.loads.add(given["src"])
        if tag == "link":
            self.loads.add(given.get("href", ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "article"


def written() -> set[str]:
    """Give every page under docs/ as the table names it."""
    return {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}


def named() -> set[str]:
    """Give every page that the table has and that stands in docs/."""
    tabled = (page for section in navigation.sections(DOCS) for page in section.pages)
    return {page.file for page in tabled if not page.file.startswith("reference/")}


def test_the_navigation_names_every_page_and_no_other():
    wanted = {page.file for section in navigation.SECTIONS for page in section.pages if not page.planned}
    assert written() == named(), "add the page to website/navigation.py"
    assert {file for file in wanted if not file.startswith("reference/")} <= written()


def test_every_page_is_linked_from_the_text_of_another(site: Path):
    pages = {page.relative_to(site).as_posix() for page in site.rglob("*.html")} - NO_PAGES
    linked = set()
    for name in pages:
        for link in Article(site / name).links:
            target = unquote(urldefrag(link)[0])
            if target and "://" not in target:
                found = ((site / name).parent / target).resolve().relative_to(site.resolve()).as_posix()
                linked |= {found} - {name}
    assert pages - linked == {"index.html"} - linked


def test_no_page_loads_anything_from_another_host(site: Path):
    loads = {each for page in site.rglob("*.html") for each in Article(page).loads}
    assert loads
    assert {each for each in loads if each.startswith(("http:", "https:", "//"))} == set()
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*", styles) == []


def test_every_reason_code_has_a_page_that_says_what_the_code_says(site: Path):
    assert set(TEXTS) == set(CATALOGUE)
    for code, reason in CATALOGUE.items():
        text = " ".join(re.sub(r"<[^>]*>", "", (site / f"reasons/{code}.html").read_text()).split())
        for said in (reason.advice, TEXTS[code].happened):
            assert plain(said) in unescape(text), code
        assert f"Class {reason.cls}" in text


def plain(markdown: str) -> str:
    return " ".join(markdown.replace("`", "").split())


def test_the_reference_has_every_public_name_and_the_options_of_calls(site: Path):
    text = "".join((site / f"reference/{name}.html").read_text() for name in ("standfast", "handlers", "errors"))
    public = (ROOT / "tests/shape/public_api.txt").read_text().split()
    assert [name for name in public if f">{name}<" not in text] == []
    assert "depth_warning" in text


def test_the_reference_has_every_command(site: Path):
    text = (site / "reference/cli.html").read_text()
    assert all(f"standfast {command}" in text for command in ("worker", "dead replay", "queue pause", "audit verify"))


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """Serve the site on a port of its own."""
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page() -> Iterator[Page]:
    """Give a page of a real browser that may reach nothing but the site."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - without a browser it is not needed

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("way", ["from disk", "served"])
def test_search_finds_a_page(page: Page, site: Path, served: str, way: str):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    start = (site / "index.html").as_uri() if way == "from disk" else f"{served}/index.html"
    page.goto(start)
    page.get_by_role("textbox", name="Search").first.fill("unknown_commit_state")
    page.keyboard.press("Enter")
    page.locator("#search-results li a", has_text="unknown_commit_state").first.click()
    assert page.locator("h1").first.inner_text().startswith("unknown_commit_state")
    assert [url for url in asked if not url.startswith(("file:", "data:", served))] == []
