"""What a dry run must remember, so that colliding records of one run are counted as the import counts them."""

from __future__ import annotations

from standfast.job import NewJob
from standfast.spine.payload import sha256
from standfast.wings.imports.scripts import Came, Refused, other_key, other_payload


class Foresight:
    """The ids and keys of the records that an import would have stored by now."""

    def __init__(self) -> None:
        self._payloads: dict[str, str] = {}
        self._owners: dict[tuple[str, str], NewJob] = {}

    def collision(self, job: NewJob, *, is_letter: bool) -> Came | None:
        """Return the outcome of a record with the id or key of an earlier one; None if it has neither."""
        digest = sha256(job.payload)
        earlier = self._payloads.get(job.id)
        if earlier is not None:
            return "known" if earlier == digest else other_payload(job.id)
        came = self._by_key(job, is_letter=is_letter)
        if not isinstance(came, Refused):
            self._payloads[job.id] = digest
        return came

    def _by_key(self, job: NewJob, *, is_letter: bool) -> Came | None:
        """Compare keys: a letter is stored without a key that is taken, a job that would run is not stored at all."""
        if job.idempotency_key is None:
            return None
        owner = self._owners.setdefault((job.queue, job.idempotency_key), job)
        if owner is job or is_letter:
            return None
        return "duplicate" if owner.fingerprint == job.fingerprint else other_key(job, owner.id)
