"""The types that callers and their editors see: options with their meanings, replies, and types of handlers."""

from standfast.typed.job_options import (
    EnqueueManyOptions,
    EnqueueOptions,
    JobOptions,
    RunOptions,
    ScheduleOptions,
    StepOptions,
    SubmitOptions,
)
from standfast.typed.letter_options import LetterFilter
from standfast.typed.queue_options import QueueOptions
from standfast.typed.reply import Reply

__all__ = [
    "EnqueueManyOptions",
    "EnqueueOptions",
    "JobOptions",
    "LetterFilter",
    "QueueOptions",
    "Reply",
    "RunOptions",
    "ScheduleOptions",
    "StepOptions",
    "SubmitOptions",
]
