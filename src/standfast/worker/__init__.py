"""Claim, run, verify, settle, apply: and keep the store in order meanwhile."""
