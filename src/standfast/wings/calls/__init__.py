"""Calls: run a handler here and now, submit it for later, or hand over a call that failed."""
