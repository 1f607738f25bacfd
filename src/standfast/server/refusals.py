"""What a connection is told before it is closed, worded once; the client is not authenticated yet."""

from __future__ import annotations

from standfast.server.problems import RETRY_AFTER, Problem


def not_http() -> Problem:
    """Word bytes that are no request."""
    return Problem(400, "not-http", "this is no HTTP request", "Send a well-formed HTTP/1.1 request.")


def head_too_large() -> Problem:
    """Word a request with too much before its body."""
    hint = "Send at most 100 headers, of 64 KiB with the address; delete cookies of other sites on this host."
    return Problem(431, "head-too-large", "the request's headers are too large", hint)


def trailer() -> Problem:
    """Word headers behind a body."""
    return Problem(400, "trailer", "the request has headers behind its body", "Send them before the body.")


def too_far_ahead() -> Problem:
    """Word requests that are sent without waiting for answers."""
    return Problem(429, "too-far-ahead", "too many requests wait on this connection", "Wait for answers in between.")


def body_without_content() -> Problem:
    """Word a body that consists of its framing."""
    return Problem(400, "not-http", "the body is mostly chunk headers", "Send larger chunks, without extensions.")


def too_slow() -> Problem:
    """Word a request that did not come in time."""
    hint = "Send the head within 10 seconds and the body within 30; nothing was changed."
    return Problem(408, "too-slow", "the request did not arrive in time", hint)


def no_room() -> Problem:
    """Word a body for which there is no room now."""
    hint = "Send it again in a moment; nothing was changed."
    return Problem(503, "too-busy", "too much is arriving at once", hint, headers=RETRY_AFTER)
