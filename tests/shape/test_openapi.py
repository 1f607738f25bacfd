"""The committed document of the API is the one that the routes give: a change of the API is seen in a review."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from standfast.server.api_routes import ROUTES
from standfast.server.openapi import document

PAGE = Path(__file__).parents[2] / "docs/openapi.json"


def written() -> str:
    """Give the document as it is committed."""
    return json.dumps(document(ROUTES), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def test_the_committed_document_is_the_one_that_is_served():
    assert PAGE.read_text() == written(), "run: python -m tests.shape.test_openapi > docs/openapi.json"


if __name__ == "__main__":
    sys.stdout.write(written())
