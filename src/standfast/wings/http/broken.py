"""How a request can end without a whole reply: it was certainly not sent, or it may have arrived.

WireError
├── ConnectError        never connected: nothing was sent
│   └── ConnectTimeout  not connected in time
├── NetworkError        the connection broke: the request may have arrived
└── ProtocolError       the answer is not HTTP
"""

from __future__ import annotations


class WireError(Exception):
    """The root of these errors."""


class ConnectError(WireError):
    """No connection could be made, or no TLS over it."""


class ConnectTimeout(ConnectError):
    """No connection was made in the time for connecting."""


class NetworkError(WireError):
    """The connection broke after the request was begun."""


class ProtocolError(WireError):
    """The receiver closed the connection without a reply, or sent something that is not HTTP."""
