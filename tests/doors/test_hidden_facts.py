"""What an operator finds in the commands' and pages' own words, without reading JSON or the history line by line."""

import asyncio
import re

import pytest

from standfast import ConfigurationError, Snooze, Standfast, Uncertain
from standfast.spine.accept import user
from standfast.testing import drain
from tests.doors.processes import WorkerProcess
from tests.doors.stages import job_of, refuse, told, work
from tests.doors.test_dashboard import Browsers
from tests.doors.test_rest import Clients


@pytest.mark.usefixtures("every_store")
class TestHealth:
    def test_a_healthy_line_counts_dead_letters_and_paused_queues(self, cli):
        for _ in range(2):
            job_of(cli, "mail")
        work(mail=refuse)
        cli("queue", "pause", "mail")
        said = cli("health")
        assert (said.exit_code, said.stdout) == (0, "healthy; 2 dead letters, 1 paused queue\n")
        judged = told(cli, "health")[1]
        assert (judged["total_dead_letter"], judged["paused_queues"]) == (2, 1)
        assert told(cli, "stats")[1]["paused_queues"] == 1
        assert "healthy; 2 dead letters, 1 paused queue" in cli("doctor").stdout


async def test_the_overview_counts_dead_letters_and_paused_queues_beside_its_verdict(furnished):
    await furnished.enqueue("refused")
    async with furnished.worker() as worker:
        await worker.run_due()
    await furnished.queues.pause("refused")
    browsers = Browsers(furnished)
    page = re.sub(r"\s+", " ", (await (await browsers.of("admin")).get("/")).text)
    await browsers.close()
    assert "No incidents; 1 dead letter, 1 paused queue." in page


async def test_jobs_that_wait_for_consent_are_no_dead_letters_in_the_verdict(furnished):
    furnished.handler("pay", consent=True)(work_nothing)
    for _ in range(3):
        await furnished.enqueue("pay", session="s")
    await furnished.enqueue("refused")
    await drain(furnished)
    browsers = Browsers(furnished)
    page = re.sub(r"\s+", " ", (await (await browsers.of("admin")).get("/")).text)
    await browsers.close()
    assert "No incidents; 1 dead letter, 3 jobs waiting for consent." in page


async def work_nothing(_job):
    """Complete."""


SENTENCE = "An earlier attempt may have had its effect too: see attempt 1 in the history."


def declare_unsure(sf):
    """Declare a handler whose first attempt ends in doubt, and whose second completes."""
    sf.queue("charge", attempts=2, backoff="none")

    @sf.handler("charge")
    def charge(job):
        if job.attempt == 1:
            raise Uncertain("the line broke")


def work_unsure():
    async def run() -> None:
        async with Standfast() as sf:
            declare_unsure(sf)
            await drain(sf)

    asyncio.run(run())


@pytest.mark.usefixtures("every_store")
class TestPossibleDuplicates:
    def test_a_job_that_was_repeated_in_doubt_says_so_in_every_command(self, cli):
        doubtful, plain = job_of(cli, "charge"), job_of(cli, "mail")
        work(mail=lambda _job: None)
        work_unsure()
        assert cli("explain", doubtful).stdout.endswith(f"{SENTENCE}\n")
        assert SENTENCE in " ".join(cli("status", doubtful).stdout.split())
        rows = cli("jobs").stdout.splitlines()
        assert [line.split()[0] for line in rows if "possible duplicate of attempt 1" in line] == [doubtful]
        assert "effect" not in cli("explain", plain).stdout

    def test_the_jobs_that_were_repeated_in_doubt_can_be_listed_and_counted(self, cli):
        doubtful, plain = job_of(cli, "charge"), job_of(cli, "mail")
        work(mail=refuse)
        work_unsure()
        found = told(cli, "jobs", "--possible-duplicate")[1]
        assert ([job["id"] for job in found["items"]], found["scanned"]) == ([doubtful], 2)
        assert [job["id"] for job in told(cli, "jobs")[1]["items"]] == [plain, doubtful]
        assert told(cli, "stats")[1]["counters"]["possible_duplicate"] == 1


async def test_a_filter_of_rest_and_of_the_page_lists_jobs_that_were_repeated_in_doubt(furnished):
    declare_unsure(furnished)
    doubtful, plain = await furnished.enqueue("charge"), await furnished.enqueue("echo")
    await drain(furnished)
    clients, browsers = Clients(furnished), Browsers(furnished)
    api, browser = await clients.of("operator"), await browsers.of("admin")
    for asked, found in (("true", doubtful), ("false", plain)):
        items = (await api.get("/jobs", params={"possible_duplicate": asked})).json()["items"]
        assert [job["id"] for job in items] == [found.id]
    assert (await api.get("/jobs", params={"possible_duplicate": "perhaps"})).status_code == 422
    page = (await browser.get("/jobs", params={"possible_duplicate": "true"})).text
    assert (doubtful.id in page, plain.id in page) == (True, False)
    assert "possible duplicate</span>" in page
    assert "unknown possible_duplicate" in (await browser.get("/jobs", params={"possible_duplicate": "perhaps"})).text
    while "is being looked up" in (page := (await browser.get(f"/jobs/{doubtful.id}")).text):
        pass  # a page does not wait for it on a slow machine
    assert SENTENCE in page
    await clients.close()
    await browsers.close()


async def test_a_possible_duplicate_is_asked_for_by_true_or_false(furnished):
    with pytest.raises(ConfigurationError, match="possible_duplicate must be True or False"):
        await furnished.jobs(possible_duplicate="true")


@pytest.mark.usefixtures("every_store")
class TestWorkerWithoutApplication:
    def test_it_warns_of_the_queues_whose_due_jobs_it_cannot_run_and_says_the_next_step(self, cli):
        for queue in ("mail", "greet"):
            job_of(cli, queue)
        job_of(cli, "later", "--delay", "1h")
        cli("http", "hooks", "GET", "http://127.0.0.1:9/")
        with WorkerProcess() as worker:
            line = worker.says("no handlers")
            worker.says("no queue of its own")
        said = "this worker has no handlers, and jobs are due in greet, mail; start one that has them: "
        assert f"{said}standfast worker app:sf" in line
        assert '"level":"warning"' in line

    def test_it_starts_without_a_warning_where_nothing_is_due(self, cli):
        job_of(cli, "later", "--delay", "1h")
        with WorkerProcess() as worker:
            worker.says("no queue of its own")
        assert "no handlers" not in "".join(worker.lines)


@pytest.mark.usefixtures("every_store")
class TestPausedQueue:
    def test_a_paused_queue_says_who_paused_it_when_and_why(self, cli):
        job = job_of(cli, "mail")
        assert cli("queue", "pause", "mail", "--reason", "the CRM moves").exit_code == 0
        said = rf"paused by {re.escape(user())} \d+ (ms|s) ago: the CRM moves"
        assert re.search(said, " ".join(cli("queue", "list").stdout.split()))
        assert re.search(said, " ".join(cli("stats").stdout.split()))
        explained = cli("explain", job).stdout
        assert re.search(f"Queue mail is {said.replace('paused by', 'paused, by')}; resume it with", explained)
        [queue] = told(cli, "queue", "list")[1]["items"]
        assert (queue["pause"]["by"], queue["pause"]["reason"]) == (user(), "the CRM moves")

    def test_pauses_and_resumes_are_decisions_of_the_audit_chain(self, cli):
        job_of(cli, "mail")
        for words in (("pause", "--reason", "the CRM moves"), ("pause",), ("resume",)):
            cli("queue", words[0], "mail", *words[1:])
        decisions = told(cli, "audit", "log")[1]["items"]
        kept = [(each["kind"], each["queue"], each["by"], each.get("reason")) for each in decisions]
        assert kept == [("pause", "mail", user(), "the CRM moves"), ("resume", "mail", user(), None)]
        assert told(cli, "audit", "verify")[1]["ok"]
        [queue] = told(cli, "queue", "list")[1]["items"]
        assert (queue["paused"], queue["pause"]) == (False, None)


async def test_a_queue_that_a_token_paused_names_its_person_on_the_page(furnished):
    furnished.queue("echo")
    clients, browsers = Clients(furnished), Browsers(furnished)
    api, browser = await clients.of("operator"), await browsers.of("admin")
    assert (await api.post("/queues/echo/pause")).status_code == 200
    assert (await api.post("/queues/echo/pause", json={"reason": "password=hunter2 leaked"})).status_code == 200
    [decision, later] = await furnished.audit.last(5, kind="pause")
    page = re.sub(r"<[^>]*>|\s+", " ", (await browser.get("/queues/echo")).text)
    assert re.search(rf"Paused by {re.escape(decision['by'])} .*: password=\S+ leaked", page)
    assert "hunter2" not in f"{page}{later}"
    await furnished.queues.pause("echo", by="ann", reason="lunch")
    assert (await furnished.queues.describe())["echo"]["pause"]["by"] == "ann"
    await clients.close()
    await browsers.close()


async def test_the_page_of_a_job_that_was_snoozed_for_long_says_how_many_lines_are_missing(furnished):
    waits = iter(range(160))

    @furnished.handler("poll")
    async def poll(_job):
        return None if next(waits, None) is None else Snooze(0)

    receipt = await furnished.enqueue("poll")
    async with furnished.worker() as worker:
        for _ in range(161):
            await worker.run_due()
    job = await furnished.status(receipt.id)
    assert (job.state, job.deferrals) == ("completed", 160)
    browsers = Browsers(furnished)
    page = (await (await browsers.of("admin")).get(f"/jobs/{receipt.id}")).text
    await browsers.close()
    assert f"{job.history[0].left_out} more like it" in page
    assert job.history[0].left_out > 50
    assert page.count("Snoozed") + job.history[0].left_out == 160
