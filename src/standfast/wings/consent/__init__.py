"""Consent: which handlers a session may run, if they ask for consent."""
