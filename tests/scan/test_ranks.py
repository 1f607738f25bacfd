"""A place whose loss is smaller, or not known, ranks lower than its rule."""

from __future__ import annotations

import pytest

from standfast.scan.scanner import scan

READ = "import httpx\n\n\ndef warm(url):\n    try:\n        httpx.{verb}(url)\n    except Exception:\n        pass\n"
SUBMIT = (
    "from collections.abc import Callable\n"
    "from concurrent.futures import ThreadPoolExecutor\n\npool = ThreadPoolExecutor()\n\n\n"
    "def send():\n    raise ValueError\n\n\ndef run(callback, declared: Callable):\n    pool.submit({function})\n"
)


@pytest.mark.parametrize(("verb", "rank"), [("get", "note"), ("head", "note"), ("post", "hidden-failure")])
def test_a_read_that_fails_loses_no_work(tmp_path, verb, rank):
    (tmp_path / "warm.py").write_text(READ.format(verb=verb))
    found = [each for each in scan([tmp_path]).findings if each.rule == "network-error-swallowed"]
    assert [each.rank.value for each in found] == [rank]


@pytest.mark.parametrize(
    ("function", "rank"), [("callback", "at-risk"), ("declared", "at-risk"), ("send", "hidden-failure")]
)
def test_a_future_of_an_unknown_function_may_be_fine(tmp_path, function, rank):
    (tmp_path / "run.py").write_text(SUBMIT.format(function=function))
    (found,) = scan([tmp_path]).findings
    assert (found.rule, found.rank.value) == ("future-dropped", rank)


def test_a_request_of_urllib_with_a_body_is_a_send(tmp_path):
    source = (
        "from urllib.request import Request, urlopen\n\n\ndef send(url, body):\n    request = Request(url, data=body)\n"
        "    try:\n        urlopen(request)\n    except OSError:\n        raise\n    except Exception:\n        pass\n"
    )
    (tmp_path / "send.py").write_text(source)
    (found,) = scan([tmp_path]).findings
    assert found.rank.value == "hidden-failure"


PUMP = """
class Pump:
    async def post(self, message):
        return self.messages.put_nowait(message)
"""
POSTING = """
import asyncio
import urllib.request

from pump import Pump


class Application(Pump):
    async def post_twice(self, message):
        await self.post(message)
        await self.post(message)

    async def report(self, message):
        urllib.request.urlopen("http://127.0.0.1:9", message)

    async def check(self, message):
        raise ValueError(message)


def run(application: Application, loop, message):
    asyncio.run_coroutine_threadsafe(application.{method}(message), loop)
"""


@pytest.mark.parametrize(
    ("method", "rank"),
    [("post", "at-risk"), ("post_twice", "at-risk"), ("report", "hidden-failure"), ("check", "hidden-failure")],
)
def test_a_coroutine_that_only_hands_something_over_in_its_process_loses_no_work(tmp_path, method, rank):
    (tmp_path / "pump.py").write_text(PUMP)
    (tmp_path / "run.py").write_text(POSTING.format(method=method))
    assert [each.rank.value for each in scan([tmp_path]).findings if each.rule == "future-dropped"] == [rank]


GATHERED = """
import asyncio


async def update(names, create, note):
    tasks = []
    for name in names:
        task = asyncio.create_task(create(name))
        {callback}
        tasks.append(task)
    await asyncio.gather(*tasks, return_exceptions=True)
"""


@pytest.mark.parametrize(
    ("callback", "rules"), [("task.add_done_callback(note)", []), ("task.set_name(name)", ["gather-results-unread"])]
)
def test_errors_that_a_callback_is_told_of_are_read(tmp_path, callback, rules):
    (tmp_path / "run.py").write_text(GATHERED.format(callback=callback))
    assert [each.rule for each in scan([tmp_path]).findings] == rules
