"""Threads: jobs that never run at the same time, and may be folded into one."""
