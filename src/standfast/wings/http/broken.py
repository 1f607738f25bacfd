"""How a request can end without a whole reply. What was certainly not sent is told apart from what may have arrived.

WireError
├── ConnectError        never connected: nothing was sent
│   └── ConnectTimeout  nor in time
├── NetworkError        the connection broke: the request may have arrived
└── ProtocolError       what came back is no HTTP
"""

from __future__ import annotations


class WireError(Exception):
    """The root."""


class ConnectError(WireError):
    """There is no connection, or no TLS over it."""


class ConnectTimeout(ConnectError):
    """There is no connection in the time that connecting has."""


class NetworkError(WireError):
    """The connection broke after the request was begun."""


class ProtocolError(WireError):
    """The receiver ended the connection without a reply, or sent what is no HTTP."""
