"""The identity of a connection. Its session comes from the connection or its token, never from an argument."""

from __future__ import annotations

import secrets

import msgspec

from standfast.errors import ConfigurationError, PolicyDenied, UnknownJob
from standfast.server.token_view import without_steps
from standfast.views import JobView
from standfast.wings.access.words import Grant, Right

UNNAMED = "mcp-"
"""The prefix of session names of unnamed connections."""
LONGEST = 200


class Identity(msgspec.Struct, frozen=True):
    """The session an agent works in, the person it acts as, and what its token allows.

    Without a token, it is a process of the operator, which may do everything that an agent may.
    """

    session: str
    person: str
    grant: Grant | None = None

    def may(self, *rights: Right) -> bool:
        """Return whether the token's role has one of these rights; true if none are named."""
        return self.grant is None or not rights or any(map(self.grant.may, rights))

    def check(self, *rights: Right) -> None:
        """Refuse what the token's role does not allow: it needs one of these rights, if any are named."""
        if self.grant is not None and not self.may(*rights):
            wanted = rights[0].replace("_", " ")
            raise PolicyDenied(f"a token of role {self.grant.role} may not {wanted}; nothing was done")

    def check_queue(self, queue: str) -> None:
        """Refuse a queue that the token does not reach."""
        if self.grant is not None and not self.grant.reaches(queue):
            raise PolicyDenied(f"the token does not reach queue {queue}; nothing was done")

    def owns(self, job: JobView) -> bool:
        """Return whether a job is this connection's own, by its session."""
        return job.session == self.session if self.grant is None else self.grant.works_in(job.session)

    def sees(self, job: JobView) -> bool:
        """Return whether this connection may know that the job exists."""
        if self.grant is None:
            return True
        own = self.owns(job) or self.person in job.requesters
        return self.grant.reaches(job.queue) and (own or self.grant.may(Right.READ))

    def visible(self, job: JobView | None, named: str) -> JobView:
        """Return a job that is visible to this connection; raise UnknownJob for any other."""
        if job is None or not self.sees(job):
            raise UnknownJob.for_id(named)
        return without_steps(job, self.grant)


def identity(session: str | None = None, person: str | None = None) -> Identity:
    """Return a connection's identity, named by the operator or else with a name that no other connection has.

    An agent that reconnects under the same name finds its inbox again; one without a name starts anew.
    """
    named = session or f"{UNNAMED}{secrets.token_hex(8)}"
    if len(named) > LONGEST or not named.isprintable():
        raise ConfigurationError(f"a session's name is printable and at most {LONGEST} characters, not {named[:40]!r}")
    return Identity(named, person or named)


def of_token(grant: Grant) -> Identity:
    """Return the identity of a token: the first session it was made for, else one named after the token.

    So a new token of the same name, or for the same session, finds the inbox again.
    """
    return Identity(grant.session, grant.person, grant)
