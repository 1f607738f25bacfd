"""What a client is told before its connection is closed, worded once; it is not authenticated yet."""

from __future__ import annotations

from standfast.server.problems import RETRY_AFTER, Problem


def not_http() -> Problem:
    """Refuse bytes that are not an HTTP request."""
    return Problem(400, "not-http", "this is no HTTP request", "Send a well-formed HTTP/1.1 request.")


def head_too_large() -> Problem:
    """Refuse a request with too much before its body."""
    hint = "Send at most 100 headers, of 64 KiB with the address; delete cookies of other sites on this host."
    return Problem(431, "head-too-large", "the request's headers are too large", hint)


def trailer() -> Problem:
    """Refuse headers after a body."""
    return Problem(400, "trailer", "the request has headers behind its body", "Send them before the body.")


def too_far_ahead() -> Problem:
    """Refuse too many requests sent without waiting for answers."""
    return Problem(429, "too-far-ahead", "too many requests wait on this connection", "Wait for answers in between.")


def body_without_content() -> Problem:
    """Refuse a body that consists of framing."""
    return Problem(400, "not-http", "the body is mostly chunk headers", "Send larger chunks, without extensions.")


def too_slow() -> Problem:
    """Refuse a request that did not arrive in time."""
    hint = "Send the head within 10 seconds and the body within 30; nothing was changed."
    return Problem(408, "too-slow", "the request did not arrive in time", hint)


def no_room() -> Problem:
    """Refuse a body for which there is no room now."""
    hint = "Send it again in a moment; nothing was changed."
    return Problem(503, "too-busy", "too much is arriving at once", hint, headers=RETRY_AFTER)
