"""The pages about frameworks show programs that run: those of `examples/`, and one of their own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.worker.processes import ROOT, environment

DOCS = ROOT / "docs"
PROJECT = "django_project"
SHOWN = {
    "fastapi.md": ["fastapi_app.py"],
    "flask.md": ["flask_app.py"],
    "django.md": [
        f"{PROJECT}/{name}"
        for name in ("manage.py", *(f"shop/{each}.py" for each in ("settings", "models", "tasks", "views", "urls")))
    ],
}


@pytest.mark.parametrize(("page", "example"), [(page, each) for page, examples in SHOWN.items() for each in examples])
def test_a_page_shows_an_example_as_it_is(page: str, example: str):
    program = (ROOT / "examples" / example).read_text().rstrip()
    assert f"```python\n{program}\n```" in (DOCS / page).read_text(), f"copy examples/{example} into docs/{page}"


def test_the_program_with_a_session_runs(tmp_path):
    [program] = re.findall(r"```python\n(# shop\.py.*?)```", (DOCS / "frameworks.md").read_text(), re.DOTALL)
    (tmp_path / "shop.py").write_text(program)
    for number in (1, 2):
        done = subprocess.run(
            [sys.executable, "-W", "error", "shop.py"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, f"mail for order {number}\ndone: mail\n"), done.stderr
