"""Alerts: conditions with a beginning and an end, and the surfaces that are told of them."""
