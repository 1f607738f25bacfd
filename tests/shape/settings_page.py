"""Write docs/settings.md from the docstrings of the rules: `python tests/shape/settings_page.py > docs/settings.md`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from standfast.rules import DEFAULTS, Backoff

RULES = Path(__file__).parents[2] / "src/standfast/rules.py"

HEAD = """# Settings

What is passed in code wins over the environment, which wins over `standfast.toml`, which wins over the default.
`standfast config` prints every effective value and where it came from.

| variable | meaning | default |
|---|---|---|
| `STANDFAST_URL` | the store: `queue.db`, `sqlite:///rel.db`, `sqlite:////abs.db`, `:memory:` | `standfast.db` |
| `STANDFAST_CONFIG` | the settings file | `standfast.toml`, if it exists |
| `STANDFAST_LOG` | `text` or `json` | `text` on a terminal, else `json` |

`[store]` of the file takes `url` and `strict_queues` (refuse a queue nobody declared; default `false`).

## Queues

`sf.queue("name", …)` in code, or `[queues.name]` in the file. Durations are seconds, or text such as `"90s"`, `"15m"`,
`"2h"`, `"7d"`.

| setting | default | meaning |
|---|---|---|
"""


def documented() -> Iterator[tuple[str, str]]:
    """Give each field of QueueRules with the sentence under it."""
    tree = ast.parse(RULES.read_text())
    rules = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "QueueRules")
    for field, below in zip(rules.body, rules.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            value = below.value if isinstance(below, ast.Expr) else None
            said = value.value if isinstance(value, ast.Constant) else ""
            yield field.target.id, " ".join(str(said).split())


def shown(value: object) -> str:
    """Write a default as a user would."""
    if isinstance(value, Backoff):
        return f"`exponential(base={value.base:g}, cap={value.cap:g})`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value!r}`"


def page() -> str:
    """Write the page."""
    return HEAD + "".join(f"| `{name}` | {shown(getattr(DEFAULTS, name))} | {said} |\n" for name, said in documented())


if __name__ == "__main__":
    sys.stdout.write(page())
