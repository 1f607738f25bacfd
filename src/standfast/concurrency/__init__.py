"""Threads, locks and background loops, and safe calls of user code."""
