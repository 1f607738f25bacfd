"""Backups of a live store, and stores made of them."""
