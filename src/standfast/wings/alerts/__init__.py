"""Alerts: conditions with a beginning and an end, and the surfaces they are announced on."""
