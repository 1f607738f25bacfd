"""GitHub's deliveries, as it sends them, cut to what is read; and how each source signs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

SECRET = "it's a secret"  # noqa: S105 - of these tests
KEY = base64.b64encode(b"0123456789abcdef01234567").decode()
WHSEC = f"whsec_{KEY}"
REPOSITORY = {"id": 1, "full_name": "acme/site", "default_branch": "main", "html_url": "https://github.com/acme/site"}
FORK = {"id": 2, "full_name": "eve/site"}


def encoded(body: Any) -> bytes:
    """Give a body as it is sent."""
    return json.dumps(body).encode()


def hub(body: bytes, secret: str = SECRET) -> str:
    """Sign as GitHub does."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(event: str, body: bytes, delivery: str = "d-1", secret: str | None = SECRET) -> dict[str, str]:
    """Give the headers of a delivery of GitHub."""
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": delivery, "Content-Type": "application/json"}
    return headers if secret is None else {**headers, "X-Hub-Signature-256": hub(body, secret)}


def webhook(body: bytes, at: float, identity: str = "msg_1", key: bytes | None = None) -> dict[str, str]:
    """Give the headers of a delivery of Standard Webhooks."""
    stamp = str(int(at))
    signed = f"{identity}.{stamp}.".encode() + body
    digest = hmac.new(key or base64.b64decode(KEY), signed, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": identity, "webhook-timestamp": stamp, "webhook-signature": signature}


def event(action: str | None = None, sender: str = "alice", **parts: Any) -> dict[str, Any]:
    """Give an event of the repository acme/site."""
    named = {} if action is None else {"action": action}
    return {**named, "repository": REPOSITORY, "sender": {"login": sender}, **parts}


def pull_request(number: int = 7, body: str | None = None) -> dict[str, Any]:
    """Give a pull request."""
    url = f"https://github.com/acme/site/pull/{number}"
    return {"number": number, "title": "Mend the site", "html_url": url, "body": body}


def workflow_run(conclusion: str = "failure", branch: str | None = "main", **more: Any) -> dict[str, Any]:
    """Give a workflow that has run."""
    return {
        "conclusion": conclusion,
        "head_branch": branch,
        "head_sha": "abc123",
        "display_title": "Build",
        "html_url": "https://github.com/acme/site/actions/runs/1",
        "event": "push",
        "pull_requests": [],
        **more,
    }
