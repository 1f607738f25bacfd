"""Webhooks into jobs, for servers of your own: `status, answer = await receive(sf, "github", headers, raw_body)`."""

from standfast.wings.ingest.verbs import check, receive

__all__ = ["check", "receive"]
