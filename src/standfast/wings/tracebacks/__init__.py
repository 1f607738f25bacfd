"""Tracebacks: where the last failed attempt of a job raised, beside the rows that every job has."""
