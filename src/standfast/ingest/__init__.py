"""Webhooks into jobs: GitHub's, Standard Webhooks, CloudEvents and plain JSON, by what the settings file says."""

from standfast.ingest.reception import check, receive

__all__ = ["check", "receive"]
