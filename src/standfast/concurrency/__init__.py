"""Threads, locks and background loops, and calls of user code that cannot do harm."""
