"""The peers' environment: their own Python with all of them installed, created once and kept.

Peers written for Node are in its directory `node`, installed by npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from standfast.bench.stores import Say
from standfast.errors import ConfigurationError

NEWEST_FIRST = ("python3.14", "python3.13", "python3.12")
"""Oban for Python needs 3.12; the others run wherever standfast does."""
DRIVERS = Path(__file__).parents[4] / "benchmarks/peers"
"""The programs that measure other queues. A checkout contains them, an installed package does not."""
NO_DRIVERS = "an installed standfast has no drivers for other queues; run the bench from a checkout to measure them"
NONE = "none"
NODE = "node"
INSTALL_SECONDS = 180
ASK = """
import importlib.metadata, json, sys
found = {each.metadata["Name"].lower(): each.version for each in importlib.metadata.distributions()}
print(json.dumps({"python": sys.version.split()[0], "packages": {name: found.get(name) for name in sys.argv[1:]}}))
"""


class Package(msgspec.Struct, frozen=True):
    """A peer: its title, its name for pip or npm, its requirement, and what it needs of its language."""

    title: str
    name: str
    requirement: str
    needs: str
    on_node: bool = False


PACKAGES = (
    Package("PgQueuer", "pgqueuer", "pgqueuer[asyncpg]", "it needs Python 3.10"),
    Package("Oban", "oban", "oban", "it needs Python 3.12"),
    Package("Procrastinate", "procrastinate", "procrastinate", "it needs Python 3.10"),
    Package("graphile-worker", "graphile-worker", "graphile-worker", "it needs Node 18 and npm", on_node=True),
)


class Installed(msgspec.Struct, frozen=True):
    """The Python that runs the peers, the version of each installed peer, and why others are missing."""

    python: str
    python_version: str
    versions: dict[str, str]
    reasons: dict[str, str]
    node_place: str = ""
    """The directory that contains `node_modules`."""


class _Answer(msgspec.Struct):
    python: str
    packages: dict[str, str | None]


def prepare(given: str | None, say: Say) -> Installed:
    """Return the environment at this path, or the user's own one, created and filled as needed."""
    if given == NONE:
        return _without_peers("--peers none")
    if not DRIVERS.is_dir():
        say(NO_DRIVERS)
        return _without_peers(NO_DRIVERS)
    if given is not None:
        return _look(_python_in(Path(given)), Path(given) / NODE, {})
    node = usual_place() / NODE
    python = _python_in(usual_place(), make=say)
    missing = [package for package in PACKAGES if package.title not in _look(python, node, {}).versions]
    return _look(python, node, {package.title: _install(python, node, package, say) for package in missing})


def _without_peers(why: str) -> Installed:
    return Installed("", "", {}, {package.title: why for package in PACKAGES})


def usual_place() -> Path:
    """Return the peers' directory in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "standfast" / "bench-peers"


def _python_in(directory: Path, make: Say | None = None) -> str:
    """Return the interpreter of an environment; a path to a file is the interpreter itself."""
    if directory.is_file():
        return str(directory)
    python = directory / "bin" / "python"
    if make is not None and not python.exists():
        make(f"making {directory}")
        _run([_newest(), "-m", "venv", "--clear", str(directory)])
    if not python.exists():
        raise ConfigurationError(f"--peers {directory} holds no bin/python; name an environment, or leave it out")
    return str(python)


def _newest() -> str:
    """Return this Python if every peer accepts it, else the newest that runs, else this one anyway."""
    if sys.version_info >= (3, 12):
        return sys.executable
    found = [path for name in NEWEST_FIRST for path in _called(name)]
    return next((path for path in found if not _run([path, "-c", "import ensurepip, venv"])), sys.executable)


def _called(name: str) -> list[str]:
    """Return the Pythons of this name: the one in the path, and those of pyenv."""
    kept = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    first = shutil.which(name)
    return [*([first] if first else []), *(str(path) for path in sorted(kept.glob(f"*/bin/{name}"), reverse=True))]


def _install(python: str, node: Path, package: Package, say: Say) -> str:
    say(f"installing {package.title} for the peers' environment")
    if package.on_node:
        return _install_on_node(node, package)
    return _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package.requirement])


def _install_on_node(node: Path, package: Package) -> str:
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not here"
    node.mkdir(parents=True, exist_ok=True)
    return _run([npm, "install", "--silent", "--prefix", str(node), package.requirement])


def _run(command: list[str]) -> str:
    """Run a command; return why it failed, or an empty text."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return said[-1].removeprefix("ERROR: ") if said else f"ended with code {done.returncode}"


def _look(python: str, node: Path, reasons: dict[str, str]) -> Installed:
    """Check which peers are installed."""
    names = [package.name for package in PACKAGES if not package.on_node]
    told = subprocess.run([python, "-c", ASK, *names], capture_output=True, text=True, check=False)  # noqa: S603
    if told.returncode:
        raise ConfigurationError(f"{python} cannot run the peers: {told.stderr.strip()}; name another with --peers")
    answer = msgspec.json.decode(told.stdout, type=_Answer)
    on_node = {package.name: _node_version(node, package) for package in PACKAGES if package.on_node}
    known = {package.title: (answer.packages | on_node)[package.name] for package in PACKAGES}
    return Installed(
        python=python,
        python_version=answer.python,
        versions={title: version for title, version in known.items() if version},
        reasons={
            package.title: f"not installed: {reasons.get(package.title) or 'there is none'} ({package.needs}, and this "
            f"is {node if package.on_node else answer.python}; --peers names another environment)"
            for package in PACKAGES
            if not known[package.title]
        },
        node_place=str(node),
    )


def _node_version(node: Path, package: Package) -> str | None:
    """Return the version of a package that npm installed here, if Node is there to run it."""
    file = node / "node_modules" / package.name / "package.json"
    if shutil.which("node") is None or not file.is_file():
        return None
    return str(msgspec.json.decode(file.read_bytes())["version"])
