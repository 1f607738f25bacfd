"""Idempotency keys: the same key never makes a second job."""
