"""Schedules: jobs enqueued again and again."""
