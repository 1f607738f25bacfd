"""How often `standfast scan` is right: scan the standard library and well-known packages, and compare with judgements.

    python benchmarks/scan_precision.py

Packages come from the index by `pip download`, in the versions that were judged. Each finding of the two worst ranks
was judged by reading the code around it; `scan_judgements.json` says how and why. The rules were written against TUNED,
and later corrected by what LATER showed, so each group has its own total. The result on code that played no part in
corrections is in docs/scan.md: it can be counted only once. Exits 1 if either group is below a precision of 0.9, or if
a finding was not judged. The standard library is that of the Python that runs this; it was judged for 3.11.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from standfast.scan.code_finding import Finding
from standfast.scan.scan_rules import Rank
from standfast.scan.scanner import scan

TUNED = ("discord.py==2.7.1", "redis==8.1.0", "distributed==2026.8.0", "prefect==3.9.0", "gradio==6.31.0")
LATER = (
    "hikari==2.7.0",
    "disnake==2.12.2",
    "twitchio==3.3.2",
    "pyatv==0.18.0",
    "slixmpp==1.17.0",
    "autobahn==26.10.2",
    "asyncua==2.1.0",
    "aiocoap==0.4.17",
    "aioesphomeapi==46.23.0",
    "zigpy==2.4.0",
    "nonebot2==2.5.0",
)
BAR = 0.9
EXCLUDED = ("test", "tests", "idle_test", "site-packages")
Judgements = dict[tuple[str, str, str, str], bool]


def main() -> None:
    """Print one row for each source, and the total of each group."""
    judged = judgements()
    with tempfile.TemporaryDirectory() as directory:
        library = [("standard library", Path(sysconfig.get_path("stdlib")))]
        tuned = count([*library, *unpacked(TUNED, Path(directory))], judged)
        later = count(unpacked(LATER, Path(directory)), judged)
    print(f"{'rules written against these':40}{row(tuned)}")
    print(f"{'rules mended on these later':40}{row(later)}")
    sys.exit(1 if any(each[None] or precision(each) < BAR for each in (tuned, later)) else 0)


def count(sources: Iterable[tuple[str, Path]], judged: Judgements) -> Counter[bool | None]:
    """Scan each source, print its findings with their judgements, and count the judgements."""
    total: Counter[bool | None] = Counter()
    for name, root in sources:
        result = scan([root], EXCLUDED)
        top = [each for each in result.findings if Rank.HIDDEN_FAILURE.includes(each.rank)]
        verdicts = [judged.get(key(name, root, each)) for each in top]
        total.update(verdicts)
        print(f"{name:24} {result.lines:8} lines  {row(Counter(verdicts))}", flush=True)
        for finding, verdict in zip(top, verdicts, strict=True):
            place = finding.place.removeprefix(f"{root}/")
            print(f"    {spelled(verdict):10} {finding.rule:24} {place}  {finding.code}")
    return total


def judgements() -> Judgements:
    """Read the judgements."""
    rows = json.loads(Path(__file__).with_name("scan_judgements.json").read_text(encoding="utf-8"))
    return {(each["source"], each["path"], each["rule"], each["code"]): each["right"] for each in rows}


def key(source: str, root: Path, finding: Finding) -> tuple[str, str, str, str]:
    """Return the key of a finding's judgement."""
    return source, Path(finding.path).resolve().relative_to(root.resolve()).as_posix(), finding.rule, finding.code


def unpacked(packages: Iterable[str], directory: Path) -> Iterator[tuple[str, Path]]:
    """Yield each package once it is fetched and unpacked."""
    for package in packages:
        place = directory / package
        download = [pip(), "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*download, "--dest", str(place), package], check=True)  # noqa: S603 - names stand above
        zipfile.ZipFile(next(place.glob("*.whl"))).extractall(place)
        yield package, place


def pip() -> str:
    """Find a pip: the environment of script/setup has none."""
    found = shutil.which("pip") or shutil.which("pip3")
    return found or sys.exit("there is no pip to download packages with")


def row(verdicts: Counter[bool | None]) -> str:
    """Format counts and precision."""
    found = f"{sum(verdicts.values()):3} findings, {verdicts[True]} right, {verdicts[False]} wrong"
    return f"{found}, {verdicts[None]} not judged, precision {precision(verdicts):.2f}"


def precision(verdicts: Counter[bool | None]) -> float:
    """Return the fraction of right findings."""
    judged = verdicts[True] + verdicts[False]
    return verdicts[True] / judged if judged else 1.0


def spelled(verdict: bool | None) -> str:  # noqa: FBT001 - three answers, one of them unknown
    """Format a verdict."""
    return {True: "right", False: "WRONG", None: "not judged"}[verdict]


if __name__ == "__main__":
    main()
