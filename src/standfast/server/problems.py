"""Refusals as RFC 9457 problem documents: what happened, and a `hint` with the next step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from standfast.errors import (
    ApprovalRefused,
    ApprovalRequired,
    Backpressure,
    ConfigurationError,
    IdempotencyConflict,
    LowDisk,
    NotALetter,
    NotVerified,
    PayloadRejected,
    PlanDrifted,
    PolicyDenied,
    StandfastError,
    StoreUnavailable,
    UnknownHandler,
    UnknownJob,
    UnknownQueue,
    UnknownRequest,
    UnreachedHandler,
    WrongAddress,
)
from standfast.printable import printable
from standfast.redact import redacted_text

MEDIA_TYPE = "application/problem+json"
TYPES = "https://standfast.dev/problems/"
RETRY_AFTER = {"Retry-After": "5"}


class Problem(Exception):
    """A refusal, on its way to the caller."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        hint: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.hint = hint
        self.headers = headers
        self.more = more

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "type": f"{TYPES}{self.kind}",
            "title": self.kind.replace("-", " "),
            "status": self.status,
            "detail": printable(redacted_text(self.detail)),
            "hint": self.hint,
            **self.more,
        }

    def response(self) -> Response:
        """Return the response to send."""
        headers = {"Cache-Control": "no-store", **(self.headers or {})}
        return Response(msgspec.json.encode(self.document), self.status, headers, media_type=MEDIA_TYPE)


class ErrorMapping(msgspec.Struct, frozen=True):
    """How one of our errors is reported over HTTP."""

    status: int
    kind: str
    hint: str
    headers: Mapping[str, str] | None = None


KNOWN: dict[type[StandfastError], ErrorMapping] = {
    IdempotencyConflict: ErrorMapping(422, "idempotency-conflict", "Use a new key for a new job; nothing was written."),
    PayloadRejected: ErrorMapping(
        422, "payload-rejected", "Correct the request and send it again; nothing was written."
    ),
    LowDisk: ErrorMapping(507, "low-disk", "The store's disk is nearly full. Wait until space is freed.", RETRY_AFTER),
    Backpressure: ErrorMapping(
        429, "backpressure", "The queue is full. Wait, then send the same key again.", RETRY_AFTER
    ),
    StoreUnavailable: ErrorMapping(
        503, "store-unavailable", "Send the same request with the same Idempotency-Key again.", RETRY_AFTER
    ),
    WrongAddress: ErrorMapping(
        503, "store-misconfigured", "The server's own settings must be corrected first; nothing was written."
    ),
    NotALetter: ErrorMapping(409, "not-a-letter", "Look at the job: it is not, or no longer, dead or held."),
    UnknownJob: ErrorMapping(404, "unknown-job", "Check the id; finished jobs are pruned after a while."),
    UnreachedHandler: ErrorMapping(
        403, "forbidden", "Call one of those that nearest names, or ask for a token for the handler's queue."
    ),
    UnknownHandler: ErrorMapping(
        404, "unknown-handler", "Call one of those that nearest names, or start the process that has it."
    ),
    UnknownQueue: ErrorMapping(404, "unknown-queue", "List the queues with GET /api/v1/queues."),
    UnknownRequest: ErrorMapping(404, "unknown-request", "Check the id; it never existed here, or it was deleted."),
    ApprovalRefused: ErrorMapping(403, "approval-refused", "Another person must answer, or it must be asked for anew."),
    PolicyDenied: ErrorMapping(403, "policy-denied", "Do not ask again; the policy's owners can say more."),
    ApprovalRequired: ErrorMapping(
        409, "approval-required", "A person must approve this first; see /api/v1/approvals."
    ),
    PlanDrifted: ErrorMapping(409, "plan-drifted", "Plan again and look at what changed; nothing was started."),
    NotVerified: ErrorMapping(
        409, "not-verified", "Check the effect, or let a person say what is so: the detail names the next step."
    ),
    ConfigurationError: ErrorMapping(422, "bad-request", "Correct the request and send it again; nothing was changed."),
}
"""Each of our errors; the first match counts."""
UNFORESEEN = ErrorMapping(500, "refused", "This is our mistake; the server's log has the details.")


def of_error(error: StandfastError) -> Problem:
    """Turn one of our errors into a problem."""
    known = next((known for kind, known in KNOWN.items() if isinstance(error, kind)), UNFORESEEN)
    more = {"nearest": error.nearest} if isinstance(error, UnknownHandler) else {}
    return Problem(known.status, known.kind, error.outside, known.hint, headers=known.headers, **more)


def misfit(error: msgspec.ValidationError, where: str) -> Problem:
    """Report a request that does not fit: what is wrong, and where, as a JSON pointer."""
    message, _, path = str(error).partition(" - at `$")
    pointer = path.rstrip("`").replace("[", "/").replace("]", "").replace(".", "/")
    errors = [{"detail": message, "pointer": f"#{pointer}"}]
    hint = "Correct what `errors` names and send it again; nothing was changed."
    return Problem(422, "invalid-request", f"the {where} does not fit: {message}", hint, errors=errors)


def unknown_route() -> Problem:
    """Report an address that does not exist."""
    return Problem(404, "not-found", "nothing is at this address", "The API's document is at /api/v1/openapi.json.")
