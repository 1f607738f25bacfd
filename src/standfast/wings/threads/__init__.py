"""Threads: jobs that never run side by side, and may be folded into one."""
