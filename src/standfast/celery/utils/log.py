"""Loggers for tasks, under Celery's name."""

from __future__ import annotations

import logging


def get_task_logger(name: str) -> logging.Logger:
    """Give a logger: its lines carry the job's id, queue, handler and attempt by themselves."""
    return logging.getLogger(name)
