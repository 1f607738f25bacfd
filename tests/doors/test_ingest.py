"""Deliveries over HTTP and on the command line: answered once they are on disk, and stored once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from standfast import ConfigurationError, Standfast
from standfast.server.app import Server
from standfast.testing import drain, memory
from standfast.wings.ingest.verbs import check, receive
from tests.core.deliveries import SECRET, encoded, event, github, pull_request
from tests.doors.stages import told

TOML = '[ingest.github]\nsecret_env = "HOOK"\nlogin = "bob"\n'
BODY = encoded(event("opened", pull_request=pull_request()))


@pytest.fixture
def _configured(here, monkeypatch):
    (here / "standfast.toml").write_text(TOML)
    monkeypatch.setenv("HOOK", SECRET)


@contextmanager
def serving(sf: Standfast, loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    """Serve `receive` on the loopback, as a server of ours will."""

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            name = self.path.removeprefix("/ingest/")
            took = asyncio.run_coroutine_threadsafe(receive(sf, name, self.headers.items(), raw), loop)
            status, answer = took.result(20)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ingest"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def post(url: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
    """Send a delivery; give the status and what was answered."""

    def sent() -> tuple[int, Any]:
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - the test's own
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:  # noqa: S310 - the test's own
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    return await asyncio.to_thread(sent)


@pytest.mark.usefixtures("_configured", "every_store")
async def test_a_delivery_over_http_is_stored_once():
    async with Standfast() as sf:
        with serving(sf, asyncio.get_running_loop()) as url:
            first = await post(f"{url}/github", github("pull_request", BODY), BODY)
            again = await post(f"{url}/github", github("pull_request", BODY), BODY)
            other_body = BODY + b" "
            other = await post(f"{url}/github", github("pull_request", other_body), other_body)
            ignored = await post(f"{url}/github", github("ping", b"{}", "d-2"), b"{}")
            forged = await post(f"{url}/github", github("pull_request", BODY, "d-3", "guess"), BODY)
            nowhere = await post(f"{url}/gitlab", github("pull_request", BODY), BODY)
        job = (await sf.jobs(queue="github"))[0]
        assert first == (201, {"outcome": "accepted", "id": job.id, "state": "queued", "queue": "github"})
        assert again == (200, {"outcome": "duplicate", "id": job.id, "state": "queued", "queue": "github"})
        assert (other[0], "an id names one delivery" in other[1]["hint"]) == (422, True)
        assert ignored == (200, {"outcome": "ignored", "reason": "event 'ping' asks for nothing"})
        assert (forged[0], nowhere[0]) == (401, 404)
        counted = await sf.stats()
        assert (counted["counters"]["ignored"], counted["queues"]["github"]["counters"]["ignored"]) == (1, 1)
        assert len(await sf.jobs(queue="github")) == 1
        assert (job.idempotency_key, job.thread_key, job.priority) == ("d-1", "github:acme/site#7", 30)
        assert (job.requester, job.payload["body_sha256"]) == ("ingest:github", hashlib.sha256(BODY).hexdigest())


@pytest.mark.usefixtures("_configured", "every_store")
async def test_a_body_of_github_under_another_id_is_no_second_job():
    """The signature covers the body and not the id: whoever caught one delivery could send it again and again."""
    async with Standfast() as sf:
        first = await receive(sf, "github", github("pull_request", BODY), BODY)
        replayed = await receive(sf, "github", github("pull_request", BODY, "d-2"), BODY)
        assert (first[0], replayed) == (201, (200, {**first[1], "outcome": "duplicate"}))
        sf.handler("github")(lambda _job: None)
        await drain(sf)
        late = await receive(sf, "github", github("pull_request", BODY, "d-3"), BODY)
        assert (late[0], late[1]["outcome"], late[1]["id"]) == (200, "duplicate", first[1]["id"])
        twice = await asyncio.gather(*(receive(sf, "github", github("pull_request", OTHER, d), OTHER) for d in "ab"))
        assert sorted(answer[1]["outcome"] for answer in twice) == ["accepted", "duplicate"]
        assert len({answer[1]["id"] for answer in twice}) == 1
        assert len(await sf.jobs(queue="github")) == 2
        third = encoded(event("opened", pull_request=pull_request(9)))
        taken = await receive(sf, "github", github("pull_request", third, "d-2"), third)
        assert (taken[0], taken[1]["outcome"]) == (201, "accepted"), "a replay takes no id from its owner"


@pytest.mark.usefixtures("_configured", "every_store")
async def test_a_body_that_was_folded_into_a_waiting_job_is_known_too():
    """Deliveries about one pull request wait as one job."""
    async with Standfast() as sf:
        sf.queue("github", coalesce="latest")
        first = await receive(sf, "github", github("pull_request", BODY), BODY)
        edited = encoded(event("reopened", pull_request=pull_request()))
        folded = await receive(sf, "github", github("pull_request", edited, "d-2"), edited)
        assert folded[1]["outcome"] == "coalesced"
        replayed = await receive(sf, "github", github("pull_request", edited, "d-3"), edited)
        assert (replayed[1]["outcome"], replayed[1]["id"]) == ("duplicate", first[1]["id"])


OTHER = encoded(event("opened", pull_request=pull_request(8)))


class Unread:
    """A request whose body nobody may ask for."""

    def __init__(self, sf: Standfast) -> None:
        self._app = Server(sf).app

    async def status(self, source: str, headers: dict[str, str]) -> int:
        """Deliver; give the status."""
        sent: list[Any] = []

        async def receive_() -> Any:
            raise AssertionError("the body was asked for")

        async def send(message: Any) -> None:
            sent.append(message)

        shown = {"host": "127.0.0.1", "content-length": "1000000", **headers}
        pairs = [(name.lower().encode(), value.encode()) for name, value in shown.items()]
        path = f"/api/v1/ingest/{source}"
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": pairs}
        await self._app({**scope, "raw_path": path.encode(), "root_path": "", "scheme": "http"}, receive_, send)
        return int(sent[0]["status"])


SOURCES = """
[ingest.github]
secret_env = "HOOK"
[ingest.pay]
kind = "standard-webhooks"
queue = "pay"
secret_env = "HOOK"
[ingest.shop]
kind = "cloudevents"
queue = "shop"
secret_env = "HOOK"
[ingest.own]
kind = "json"
queue = "own"
secret_env = "HOOK"
signature_header = "X-Own"
"""


async def test_a_delivery_without_a_signature_is_refused_unread(here, monkeypatch):
    """And so is one whose signature is too old, or whose token is wrong: none needs the body."""
    (here / "standfast.toml").write_text(SOURCES)
    monkeypatch.setenv("HOOK", SECRET)
    async with Standfast() as sf:
        unread = Unread(sf)
        assert await unread.status("github", {"X-GitHub-Event": "push", "X-GitHub-Delivery": "d-1"}) == 401
        assert await unread.status("pay", {}) == 401
        old = {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
        assert await unread.status("pay", old) == 401
        assert await unread.status("shop", {"authorization": "Bearer guess"}) == 401
        assert await unread.status("own", {"x-hub-signature-256": "x"}) == 401
        with pytest.raises(AssertionError, match="asked for"):
            await unread.status("own", {"x-own": "x"})


@pytest.mark.usefixtures("_configured")
async def test_what_does_not_fit_its_handler_is_taken_and_dies():
    class Wanted(msgspec.Struct):
        number: str

    async with memory() as sf:

        @sf.handler("github", input=Wanted)
        async def review(job: Any) -> None:
            raise AssertionError(job)

        status, answer = await receive(sf, "github", github("pull_request", BODY), BODY)
        assert (status, answer["outcome"]) == (201, "accepted")
        await drain(sf)
        job = await sf.status(answer["id"])
        assert job is not None
        assert job.failure is not None
        assert (job.state, job.failure.reason_code) == ("dead", "schema_invalid")


@pytest.mark.usefixtures("_configured")
async def test_what_cannot_be_taken_now_says_so(here):
    (here / "standfast.toml").write_text(TOML + "[queues.github]\nmax_depth = 1\n")
    async with memory() as sf:
        bodies = [encoded(event("opened", pull_request=pull_request(number))) for number in (1, 2)]
        answers = [
            await receive(sf, "github", github("pull_request", body, f"d-{body[-9]}{place}"), body)
            for place, body in enumerate(bodies)
        ]
        assert [status for status, _ in answers] == [201, 429]
        huge = b" " * (25 << 20) + b"{}"
        assert (await receive(sf, "github", github("issues", b""), huge))[0] == 413


@pytest.mark.usefixtures("_configured")
@pytest.mark.parametrize("twice", ["X-GitHub-Delivery", "x-hub-signature-256", "X-GITHUB-EVENT"])
async def test_a_delivery_that_says_twice_what_it_is_is_refused(twice):
    """A proxy before us may have read the other value; that both are the same makes no difference."""
    headers = github("pull_request", BODY)
    [value] = [each for name, each in headers.items() if name.lower() == twice.lower()]
    async with memory() as sf:
        for again in (value, "d-2"):
            status, answer = await receive(sf, "github", [*headers.items(), (twice, again)], BODY)
            assert (status, answer["detail"]) == (400, f"the delivery has more than one {twice.lower()} header")
        assert len(await sf.jobs()) == 0
        twice_elsewhere = [*headers.items(), ("Via", "a"), ("Via", "b")]
        assert (await receive(sf, "github", twice_elsewhere, BODY))[0] == 201


async def test_a_signature_header_of_ones_own_is_said_once_too(here, monkeypatch):
    (here / "standfast.toml").write_text(
        '[ingest.lab]\nkind = "json"\nqueue = "lab"\nsignature = "bearer"\nsignature_header = "X-Gitlab-Token"\n'
        'secret_env = "HOOK"\nidempotency_key = "$.id"\n'
    )
    monkeypatch.setenv("HOOK", SECRET)
    token = ("X-Gitlab-Token", SECRET)
    async with memory() as sf:
        assert (await receive(sf, "lab", [token], b'{"id": "1"}'))[0] == 201
        assert (await receive(sf, "lab", [token, ("x-gitlab-token", "guess")], b'{"id": "2"}'))[0] == 400


@pytest.mark.usefixtures("_configured")
async def test_a_body_that_was_decoded_is_refused_and_other_bytes_are_taken():
    async with memory() as sf:
        with pytest.raises(ConfigurationError, match="must be the bytes as they came, not str"):
            await receive(sf, "github", github("pull_request", BODY), BODY.decode())  # type: ignore[arg-type]
        status, _ = await receive(sf, "github", github("pull_request", BODY), memoryview(BODY))
        assert (status, len(await sf.jobs())) == (201, 1)


async def test_a_source_without_its_secret_takes_nothing(here, monkeypatch, caplog):
    monkeypatch.delenv("HOOK", raising=False)
    (here / "standfast.toml").write_text(TOML)
    async with memory() as sf:
        with pytest.raises(ConfigurationError, match=r"the secret in \$HOOK is missing"):
            check(sf)
        status, answer = await receive(sf, "github", github("pull_request", BODY, secret=None), BODY)
        assert (status, "HOOK" in str(answer)) == (500, False), "what is wrong is the operator's to know"
        assert "the secret in $HOOK is missing" in caplog.text
        assert list(await sf.jobs()) == []


async def test_a_batch_of_events_is_many_jobs(here):
    (here / "standfast.toml").write_text(
        '[ingest.shop]\nkind = "cloudevents"\nqueue = "$.type"\nqueues = ["paid"]\nunsigned = true\n'
    )
    headers = {"Content-Type": "application/cloudevents-batch+json"}
    events = [{"specversion": "1.0", "id": str(n), "source": "/shop", "type": "paid"} for n in range(3)]
    async with memory() as sf:
        status, answer = await receive(sf, "shop", headers, encoded(events))
        assert (status, [each["outcome"] for each in answer["items"]]) == (201, ["accepted"] * 3)
        status, answer = await receive(sf, "shop", headers, encoded(events))
        assert (status, [each["outcome"] for each in answer["items"]]) == (200, ["duplicate"] * 3)
        bad = encoded([events[0], {**events[1], "type": "other"}])
        assert (await receive(sf, "shop", headers, bad))[0] == 422, "all or none, as far as they can be read"


async def test_a_request_to_a_private_address_is_refused(here):
    (here / "standfast.toml").write_text(
        '[ingest.relay]\nkind = "json"\nqueue = "relay"\nhandler = "http"\nunsigned = true\n'
    )
    async with memory() as sf:
        inside = encoded({"method": "POST", "url": "http://169.254.169.254/"})
        status, answer = await receive(sf, "relay", {}, inside)
        assert (status, "169.254.169.254" in answer["detail"]) == (422, True)
        assert (await receive(sf, "relay", {}, b'{"no": "request"}'))[0] == 422
        assert (await receive(sf, "relay", {}, encoded({"method": "GET", "url": "https://example.com/"})))[0] == 201


# --- the command line


@pytest.mark.usefixtures("_configured")
class TestCommand:
    def test_takes_a_body_as_the_server_would(self, cli, here):
        (here / "body.json").write_bytes(BODY)
        headers = [f"--header={name}: {value}" for name, value in github("pull_request", BODY).items()]
        code, first = told(cli, "ingest", "github", "body.json", *headers)
        assert (code, first["outcome"]) == (0, "accepted")
        again = cli("ingest", "github", *headers, stdin=BODY)
        assert (again.exit_code, again.stdout.split()) == (0, [first["id"], "duplicate", "queued"])
        forged = cli("ingest", "github", *headers[:-1], "-H", "X-Hub-Signature-256: sha256=00", stdin=BODY)
        assert (forged.exit_code, "the signature does not fit the body" in forged.stderr) == (2, True)

    def test_takes_an_unsigned_body_by_hand(self, cli, here):
        (here / "standfast.toml").unlink()
        (here / "a.json").write_bytes(BODY)
        (here / "b.json").write_bytes(encoded(event("opened", issue=pull_request(8))))
        by_hand = ("ingest", "github", "--event", "pull_request", "--unsigned", "--delivery", "x")
        code, first = told(cli, *by_hand, "a.json")
        assert (code, first["outcome"]) == (0, "accepted")
        job = told(cli, "status", first["id"])[1]
        assert (job["idempotency_key"], job["payload"]["trigger"]) == ("x", "pr_update_general")
        same = [told(cli, "ingest", "github", "b.json", "--event", "issues", "--unsigned")[1] for _ in range(2)]
        assert [each["outcome"] for each in same] == ["accepted", "duplicate"], "the same body is the same delivery"

    def test_says_what_is_ignored_and_what_is_missing(self, cli):
        ignored = cli("ingest", "github", "--event", "push", "--unsigned", stdin=b"{}")
        assert (ignored.exit_code, ignored.stdout) == (0, "ignored: event 'push' asks for nothing\n")
        unknown = cli("ingest", "gitlab", stdin=b"{}")
        assert (unknown.exit_code, "there is no [ingest.gitlab]" in unknown.stderr) == (2, True)
        nothing = cli("ingest", "github", "--event", "issues", "missing.json")
        assert (nothing.exit_code, "cannot read missing.json" in nothing.stderr) == (2, True)
