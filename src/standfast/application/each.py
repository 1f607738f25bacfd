"""Enqueues jobs of any queues in one call, with an answer for each: a refused job does not affect the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from standfast.application.reception import Reception
from standfast.errors import ConfigurationError, StandfastError
from standfast.job import HTTP, NewJob, Receipt
from standfast.spine.accept import Acceptor, receipt
from standfast.wings.http import verbs as http
from standfast.wings.queues.checks import Admission

Answered = Receipt | StandfastError
"""The answer for one job: its receipt, or why it was refused."""


async def enqueue_each(
    wanted: Iterable[Mapping[str, Any]], acceptor: Acceptor, admission: Admission, reception: Reception
) -> list[Answered]:
    """Store each job that can be stored; return the answers in the same order."""
    laid_out = [_laid_out(acceptor, each) for each in wanted]
    admitted = [await _admitted(admission, each) for each in laid_out]
    jobs = [each for each in admitted if isinstance(each, NewJob)]
    stored = await _stored(reception, jobs)
    answered = zip(jobs, stored, strict=True)
    admission.point_out(job for job, each in answered if isinstance(each, Receipt) and each.outcome != "spooled")
    answers = iter(stored)
    return [next(answers) if isinstance(each, NewJob) else each for each in admitted]


def _laid_out(acceptor: Acceptor, wanted: Mapping[str, Any]) -> NewJob | StandfastError:
    """Check one job as `enqueue` or `enqueue_http` does."""
    try:
        queue, payload, options = _call(wanted)
        [job] = acceptor.jobs(queue, (payload,), **options)
    except StandfastError as error:
        return error
    return job


def _call(wanted: Mapping[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """Return the arguments of the `enqueue` call that one job stands for."""
    options = {name: value for name, value in wanted.items() if name not in {"queue", "payload", "http"}}
    if "queue" not in wanted:
        raise ConfigurationError("a job without a queue; nothing was written: name its queue")
    request = wanted.get("http")
    if request is None:
        return wanted["queue"], wanted.get("payload"), options
    if wanted.get("payload") is not None:
        raise ConfigurationError("payload and http were both given; nothing was written: give one of them")
    return wanted["queue"], http.request(**request), {**options, "handler": HTTP}


async def _admitted(admission: Admission, job: NewJob | StandfastError) -> NewJob | StandfastError:
    if isinstance(job, NewJob) and (job.handler == HTTP or admission.strict):
        try:
            await admission.admit([job])
        except StandfastError as error:
            return error
    return job


async def _stored(reception: Reception, jobs: Sequence[NewJob]) -> list[Answered]:
    if not jobs:
        return []
    try:
        answers = await reception.accept_each(jobs)
    except StandfastError as error:
        return [error for _ in jobs]
    return [_answered(answer, job) for answer, job in zip(answers, jobs, strict=True)]


def _answered(answer: Any, job: NewJob) -> Answered:
    try:
        return receipt(answer, job)
    except StandfastError as error:
        return error
