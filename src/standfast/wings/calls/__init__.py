"""Calls: run a handler here and now, submit it for later, hand over one that failed."""
