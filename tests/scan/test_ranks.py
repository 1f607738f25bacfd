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
