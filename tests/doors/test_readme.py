"""The first minutes of a new user, as README.md has them."""

import json
import re
import runpy
import shlex
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_ten_lines_and_the_commands_below_them_meet_in_one_store(cli, here):
    [program] = re.findall(r"```python\n(.*?)```", section("Ten lines"), re.DOTALL)
    (here / "app.py").write_text(program)
    [enqueue] = re.findall(r"^\$ standfast (enqueue .*)$", section("Try it"), re.MULTILINE)
    assert cli(*shlex.split(enqueue)).exit_code == 0
    runpy.run_path("app.py", run_name="app")  # as `standfast worker app:sf` loads it: nothing runs
    runpy.run_path("app.py", run_name="__main__")
    jobs = json.loads(cli("jobs", "--json").stdout)["items"]
    assert {job["payload"]["user"] for job in jobs} == {"ann", "bob"}
    assert {job["handler"] for job in jobs} == {"identity_provision"}
