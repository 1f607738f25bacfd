"""run and submit: an exit code for every end, and queued is none of success."""

import json

import pytest

APP = """
import asyncio
from standfast import Permanent, Standfast, Transient, fixed

sf = Standfast()
sf.queue("mail", backoff=fixed(3600))

@sf.handler("mail")
async def mail(job):
    match job.payload:
        case "later":
            raise Transient("not now")
        case "never":
            raise Permanent("no")
        case "refused":
            raise Permanent("no", reason_code="denied")
        case "slow":
            await asyncio.sleep(60)
    return {"got": job.payload, "session": job.session}

@sf.handler("pay", replay="manual")
async def pay(job):
    await asyncio.sleep(60)
"""


@pytest.fixture
def app(here, monkeypatch, request):
    """Write the application down, under a name that no other test has imported."""
    name = f"calling_{abs(hash(request.node.nodeid))}"
    (here / f"{name}.py").write_text(APP)
    monkeypatch.syspath_prepend(str(here))
    return f"{name}:sf"


def answer(cli, *words):
    done = cli(*words, "--json")
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (["mail", '"hello"'], 0, "ok"),
        (["mail"], 0, "ok"),
        (["mail", '"never"'], 1, "failed"),
        (["mail", '"later"'], 2, "queued"),
        (["mail", '"slow"', "--timeout", "0.05"], 2, "queued"),
        (["pay", "--timeout", "0.05"], 2, "timeout"),
        (["mail", '"refused"'], 4, "failed"),
    ],
)
def test_a_call_ends_with_the_code_of_its_reply(cli, app, words, code, status):
    found, said = answer(cli, "run", app, *words)
    assert (found, said["status"]) == (code, status)


def test_a_call_is_shown_with_what_to_do_next(cli, app):
    done = cli("run", app, "mail/mail", '"hello"', "--session", "s-1", "--key", "k")
    first, *rest = done.stdout.splitlines()
    assert first.endswith(" ok: It is done; the result is here.")
    assert json.loads("\n".join(rest)) == {"got": "hello", "session": "s-1"}
    again = cli("run", app, "mail/mail", '"hello"', "--key", "k")
    assert again.stdout == done.stdout, "called once"
    failed = cli("run", app, "mail", '"never"')
    assert "handler_refused: no" in failed.stdout


def test_without_the_application_it_is_queued_and_waited_for(cli, app):
    cli("submit", app, "mail")
    code, said = answer(cli, "run", "mail", "{}", "--timeout", "0.01")
    assert (code, said["status"]) == (2, "queued")


@pytest.mark.parametrize("verb", ["run", "submit"])
@pytest.mark.usefixtures("every_store")
def test_a_handler_that_is_unknown_is_told_in_one_line_with_the_nearest_names(cli, app, verb):
    cli("submit", app, "mail", "--key", "first")
    done = cli(verb, "mial", "{}")
    line = "standfast: no process ever published a handler 'mial'; nothing was written: did you mean mail?\n"
    assert (done.exit_code, done.stderr) == (3, line)
    assert len(json.loads(cli("jobs", "--json").stdout)["items"]) == 1


def test_a_submission_is_taken_in_and_not_done(cli, app):
    code, said = answer(cli, "submit", app, "mail", '"never"', "--key", "k", "--priority", "3")
    assert (code, said["status"], said["queue_reason"]) == (0, "queued", "deferred_submit")
    waited = cli("wait", said["operation_id"], "--timeout", "0.01")
    assert waited.exit_code == 2
    cli("cancel", said["operation_id"])
    assert answer(cli, "submit", app, "mail", '"never"', "--key", "k")[0] == 1


@pytest.mark.parametrize("words", [[], ["app:sf"], ["app:sf", "mail", "{}", "{}"]])
@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_call_needs_a_handler(cli, command, words):
    assert cli(command, *words).exit_code == 2


def test_what_cannot_be_read_is_a_usage_error(cli):
    assert cli("run", "mail", "{no json").exit_code == 2
    assert cli("run", "nowhere:sf", "mail").exit_code == 2
