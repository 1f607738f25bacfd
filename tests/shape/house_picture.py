"""Draw the house from the import graph: `python -m tests.shape.house_picture > docs/architecture.svg`.

A floor for each layer, a box for each room, with its lines of code; a wing also says which other wings it uses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import grimp

SOURCE = Path(__file__).parents[2] / "src" / "standfast"
FLOORS = {
    "frames": ("cli", "server", "dashboard", "mcp", "doors", "fastapi", "ingest"),
    "application": ("application",),
    "worker": ("worker",),
    "wings": (),
    "spine": (),
    "store": (),
    "words": (),
}
NOTES = {
    "frames": "authentication, routing, rendering; what is shown of a noun stands in its wing",
    "application": "Standfast, and which wing joins at which moment",
    "worker": "the loops around the spine: claim, execute, beat, sweep, prune",
    "wings": "one folder for each noun: words, rules, scripts, verbs and doors",
    "spine": "the whole life of a plain job; it imports no wing",
    "store": "one writer, one transaction a round, three verbs: read, write, claim",
    "words": "frozen values and the table of moves",
}
WORDS = ("job", "lifecycle", "failure", "outcome", "rules", "views", "errors", "clock", "settings", "concurrency")
WIDTH, MARGIN, GAP, BOX, LINE = 1160, 20, 10, 212, 17
LETTERS = 33
"""Characters that fit into a box."""


class Box(NamedTuple):
    """A room: its name, its lines of code, and what it uses."""

    name: str
    lines: int
    uses: tuple[str, ...] = ()

    @property
    def text(self) -> list[str]:
        """What is written in it."""
        return [f"{self.name} · {self.lines}", *_folded("uses " + ", ".join(self.uses) if self.uses else "")]


def lines_of(*parts: str) -> int:
    """Count the lines of a module or of everything in a folder."""
    place = SOURCE.joinpath(*parts)
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    return sum(file.read_text(encoding="utf-8").count("\n") for file in files)


def wings() -> list[Box]:
    """Give each wing with the wings it imports, those that most others stand on last."""
    graph = grimp.build_graph("standfast")
    names = sorted(path.name for path in (SOURCE / "wings").iterdir() if (path / "__init__.py").exists())
    used: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        for module in graph.find_descendants(f"standfast.wings.{name}"):
            for found in graph.find_modules_directly_imported_by(module):
                parts = found.split(".")
                if parts[1:2] == ["wings"] and len(parts) > 3 and parts[2] != name:
                    used[name].add(parts[2])
    return [Box(name, lines_of("wings", name), tuple(sorted(used[name]))) for name in names]


def modules(folder: str) -> list[Box]:
    """Give the modules and folders of a room."""
    found = sorted(SOURCE.joinpath(folder).iterdir())
    named = [each for each in found if each.suffix == ".py" or (each / "__init__.py").exists()]
    return [Box(each.stem, lines_of(folder, each.stem)) for each in named if each.stem != "__init__"]


def floors() -> Iterator[tuple[str, list[Box]]]:
    """Give the floors of the house, from the top."""
    for floor, rooms in FLOORS.items():
        match floor:
            case "wings":
                yield floor, wings()
            case "spine" | "store":
                yield floor, modules(floor)
            case "words":
                yield floor, [Box(name, lines_of(name)) for name in WORDS]
            case _:
                yield floor, [Box(name, lines_of(name)) for name in rooms]


def _folded(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > LETTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [line for line in lines if line]


def _rows(boxes: Sequence[Box]) -> Iterator[Sequence[Box]]:
    each = (WIDTH - 2 * MARGIN + GAP) // (BOX + GAP)
    for start in range(0, len(boxes), each):
        yield boxes[start : start + each]


def picture() -> str:
    """Draw it."""
    parts: list[str] = []
    top = MARGIN
    for floor, boxes in floors():
        begin = top
        top += 2 * LINE
        inside: list[str] = []
        for row in _rows(boxes):
            height = max(len(box.text) for box in row) * LINE + 12
            for place, box in enumerate(row):
                x = MARGIN + GAP + place * (BOX + GAP)
                inside.append(f'<rect class="room" x="{x}" y="{top}" width="{BOX}" height="{height}" rx="5"/>')
                for number, text in enumerate(box.text):
                    kind = "name" if number == 0 else "uses"
                    inside.append(
                        f'<text class="{kind}" x="{x + 9}" y="{top + 18 + number * LINE}">{escape(text)}</text>'
                    )
            top += height + GAP
        parts.append(f'<rect class="floor" x="{MARGIN}" y="{begin}" width="{WIDTH}" height="{top - begin}" rx="8"/>')
        said = f"<tspan font-weight='bold'>{floor}</tspan>: {escape(NOTES[floor])}"
        parts.append(f'<text class="note" x="{MARGIN + GAP}" y="{begin + 22}">{said}</text>')
        parts += inside
        top += GAP
    style = (
        ".floor{fill:#f4f6f8;stroke:#c5ccd3}.room{fill:#fff;stroke:#8fa1b3}text{font-family:sans-serif;fill:#1f2933}"
        ".name{font-size:13px;font-weight:bold}.uses{font-size:12px;fill:#52606d}.note{font-size:14px}"
    )
    size = f'width="{WIDTH + 2 * MARGIN}" height="{top + MARGIN}"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{style}</style>", *parts, "</svg>", ""]
    )


if __name__ == "__main__":
    sys.stdout.write(picture())
