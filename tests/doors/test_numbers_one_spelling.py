"""Numbers and lengths of time have one spelling wherever a person reads them; JSON has them plain."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from standfast import Standfast
from standfast.printable import number
from standfast.rules import Backoff, Breaker, Limit, Rate, Retention, adaptive, exponential, no_backoff
from standfast.wings.queues.rule_words import rule_in_words
from tests.doors.conftest import Cli
from tests.doors.stages import refuse, told, work
from tests.doors.test_dashboard import Browsers

LETTERS = 1200
SHOWN = number(LETTERS)
DENY = "version: v1\ndlq_rules:\n  - {match: {}, action: require_approval, approver_group: treasury}\n"


@pytest.mark.usefixtures("every_store")
def test_commands_write_thousands_apart_and_json_writes_them_plain(cli: Cli, here: Path) -> None:
    lines, policy = here / "jobs.jsonl", here / "candidate.yaml"
    lines.write_text("{}\n" * LETTERS)
    policy.write_text(DENY)
    stored = cli("enqueue", "refused", "--jsonl", str(lines)).stdout
    assert f"{SHOWN} lines: {SHOWN} accepted" in stored
    work(refused=refuse)
    assert cli("dead", "groups").stdout.splitlines()[1].startswith(f"{SHOWN} ")
    assert told(cli, "dead", "groups")[1]["items"][0]["count"] == LETTERS
    planned = cli("dead", "plan").stdout
    assert planned.splitlines()[0].split("  ")[0] == SHOWN
    assert str(LETTERS) not in re.sub(r"redrive \S+", "", planned)
    plan = told(cli, "dead", "plan")[1]
    assert plan["letters"] == LETTERS
    cli("dead", "redrive", plan["token"])
    assert f"0 of {SHOWN}" in cli("dead", "redrives").stdout
    shown = cli("dead", "redrive", plan["token"], "--show").stdout
    assert re.search(rf"^waiting +{SHOWN}$", shown, re.MULTILINE), shown
    checked = cli("policy", "check", str(policy)).stdout
    assert f"{SHOWN} of {SHOWN} letters would be treated differently" in checked
    assert str(LETTERS) not in checked
    assert json.loads(cli("policy", "check", str(policy), "--json").stdout)["letters"] == LETTERS


async def test_the_page_of_a_queue_says_its_rules_in_words(furnished: Standfast) -> None:
    sf = furnished
    sf.queue("mail", timeout="15m", depth_warning=12_000, rate="100/s", keep_dead={"age": "90d", "count": 10_000})
    await sf.enqueue("mail", delay=3600)
    browsers = Browsers(sf)
    page = html.unescape((await (await browsers.of("admin")).get("/queues/mail")).text)
    await browsers.close()
    rules = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]*)</dd>", page.partition("Rules in force")[2]))
    assert rules["lease"] == "1 min 30 s"
    assert rules["timeout"] == "15 min"
    assert rules["keep keys"] == "7 d"
    assert rules["backoff"] == "2 s doubling to 5 min"
    assert rules["depth warning"] == number(12_000)
    assert rules["rate"] == "100 in 1 s"
    assert rules["keep dead"] == f"90 d, the newest {number(10_000)}"
    assert rules["breaker"] == "after 4 failures for 5 s"
    assert "max age" not in rules


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("backoff", exponential(base=4, cap=600), "4 s doubling to 10 min"),
        ("backoff", adaptive(), "10 s to 2 min"),
        ("backoff", Backoff(table=(10.0,)), "10 s"),
        ("backoff", no_backoff(), "none"),
        ("concurrency", Limit(limit=2, key="payload.tenant"), "2 for each payload.tenant"),
        ("rate", Rate(limit=5, per=60.0, burst=3), "5 in 1 min, 3 at the same moment"),
        ("breaker", Breaker(dependency="crm", failures=1), "crm, after 1 failure for 5 s"),
        ("keep_dead", Retention(count=5), "the newest 5"),
        ("age_boost", 2.5, "2.5"),
        ("age_boost", 2.0, "2"),
        ("destinations", ("127.0.0.1", "*.internal"), "127.0.0.1, *.internal"),
        ("gate", "https://gate.example", "https://gate.example"),
    ],
)
def test_a_rule_in_words(name, value, said):
    assert rule_in_words(name, value) == said
