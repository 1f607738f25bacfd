"""A directory of its own for every test, and the command line called in this process."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result

from standfast import Permanent, Standfast
from standfast.cli.main import main
from tests.doors import published

Cli = Callable[..., Result]


@pytest.fixture(autouse=True, scope="session")
def answers_are_as_published() -> Iterator[None]:
    """Hold every answer of the API, in every test, to the schema that its document publishes."""
    send = httpx2.AsyncClient.send

    async def checked(self: httpx2.AsyncClient, *given: Any, **options: Any) -> httpx2.Response:
        answer = await send(self, *given, **options)
        if not options.get("stream"):
            published.check(answer)
        return answer

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(httpx2.AsyncClient, "send", checked)
        yield


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty directory, with nothing of ours in the environment."""
    for name in (
        "STANDFAST_URL",
        "STANDFAST_CONFIG",
        "STANDFAST_LOG",
        "STANDFAST_LOG_LEVEL",
        "NO_COLOR",
        "FORCE_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["file", "postgres"])
def every_store(request: pytest.FixtureRequest, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Run on every kind of store there is: the file that is the default, and a server that the environment names."""
    if request.param == "postgres":
        monkeypatch.setenv("STANDFAST_URL", request.getfixturevalue("postgres_url"))


@pytest.fixture
def cli(here: Path) -> Cli:
    """Run a command in this process: for everything that does not depend on being one's own."""

    def run(*arguments: str, stdin: bytes | None = None) -> Result:
        result = CliRunner().invoke(main, arguments, input=stdin)
        _forget_modules(here)
        unexpected = result.exception
        assert unexpected is None or isinstance(unexpected, SystemExit), unexpected
        return result

    return run


def _forget_modules(directory: Path) -> None:
    """Have the next command import its application anew, as a process of its own does."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(f"{directory}/"):
            del sys.modules[name]


@pytest.fixture(params=["memory", "postgres"])
async def furnished(request: pytest.FixtureRequest) -> AsyncIterator[Standfast]:
    """Give a queue with a handler that works and one that does not."""
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("used_postgres_url")
    made = Standfast(url)
    made.handler("echo")(lambda job: {"got": job.payload})

    @made.handler("refused")
    async def refused(_job):
        raise Permanent("no: password=hunter2")

    async with made:
        yield made
