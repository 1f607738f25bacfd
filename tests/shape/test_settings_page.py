from __future__ import annotations

from pathlib import Path

from standfast.rules import QueueRules
from tests.shape.settings_page import documented, page


def test_every_setting_says_what_it_means():
    assert {name for name, said in documented() if said} == set(QueueRules.__struct_fields__)


def test_the_page_is_the_one_the_docstrings_give():
    written = (Path(__file__).parents[2] / "docs/settings.md").read_text()
    assert written == page(), "run: python tests/shape/settings_page.py > docs/settings.md"
