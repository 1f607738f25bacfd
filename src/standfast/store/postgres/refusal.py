"""Why a server refused a connection: an outage, which passes, or a wrong address, which waiting cannot fix.

libpq words a refusal in the server's language and does not reveal the SQLSTATE, except in the trace of its messages.
So a connection that failed is tried once more, with a trace; connections that succeed are never traced.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from standfast.portable import wait_for

PROBE_SECONDS = 4.0
"""How long the traced attempt may take."""
_STATE = re.compile(rb'^B\t\d+\tErrorResponse\t S "[^"]*" V "[^"]*" C "([0-9A-Z]{5})"', re.MULTILINE)
READS, WRITES = pq.PollingStatus.READING, pq.PollingStatus.WRITING


def is_lasting(sqlstate: str | None) -> bool:
    """Return whether a SQLSTATE means that the address is wrong: the user, the database, or the user's rights."""
    return sqlstate is not None and (sqlstate[:2] in {"28", "3D"} or sqlstate == "42501")


def is_refused_for_good(server: str, error: psycopg.OperationalError, options: dict[str, Any]) -> bool:
    """Return whether a connection failed for a reason that waiting cannot fix."""
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return False
    failed = error.pgconn
    if failed is None:
        return False
    if failed.needs_password:  # the server asks for a password, and none was given
        return True
    where = {"host": failed.host, "hostaddr": failed.hostaddr, "port": failed.port}
    at = {name: value.decode() for name, value in where.items() if value}
    return is_lasting(_traced_state(make_conninfo(server, **{**options, **at})))


def _traced_state(conninfo: str) -> str | None:
    """Connect once more, and read from the trace the SQLSTATE that the server ends with; None if it gives none."""
    trace = os.memfd_create("standfast-trace") if hasattr(os, "memfd_create") else None
    if trace is None:  # libpq can be traced only on Linux; elsewhere every refusal counts as an outage
        return None
    try:
        _attempt(conninfo, trace)
        os.lseek(trace, 0, os.SEEK_SET)
        states = _STATE.findall(os.read(trace, 1 << 20))
    finally:
        os.close(trace)
    return states[-1].decode() if states else None


def _attempt(conninfo: str, trace: int) -> None:
    wire = pq.PGconn.connect_start(conninfo.encode())
    try:
        with suppress(psycopg.Error):
            wire.trace(trace)
            wire.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
            _finish(wire, time.monotonic() + PROBE_SECONDS)
            wire.untrace()
    finally:
        wire.finish()


def _finish(wire: pq.abc.PGconn, until: float) -> None:
    """Continue until the connection is open, has failed, or took too long."""
    while (events := pq.PollingStatus(wire.connect_poll())) in (READS, WRITES):
        left = max(0.0, until - time.monotonic())
        if not wait_for(wire.socket, left, readable=events == READS, writable=events == WRITES):
            return


def is_unknown_host(server: str) -> bool:
    """Return whether none of the hosts in an address can be found."""
    given = conninfo_to_dict(server)
    if given.get("hostaddr") or os.environ.get("PGHOSTADDR"):
        return False
    hosts = str(given.get("host") or os.environ.get("PGHOST") or "").split(",")
    return not any(not host or host.startswith(("/", "@")) or _is_found(host) for host in hosts)


def _is_found(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except OSError:
        return False
    return True
