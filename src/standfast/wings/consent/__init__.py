"""Consent: what a session allows the handlers that ask for it."""
