"""What the stream of notices sends."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class NoticeEvent(TypedDict):
    """One notice as a CloudEvents 1.0 event; `id` is its number, and `data` has `kind`, `job`, `queue` and more."""

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    time: str
    subject: NotRequired[str]
    datacontenttype: Literal["application/json"]
    data: dict[str, Any]
