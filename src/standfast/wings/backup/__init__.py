"""Backups of a live store, and stores restored from them."""
