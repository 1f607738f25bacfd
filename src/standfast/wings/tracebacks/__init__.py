"""Tracebacks: where the last failed attempt of a job raised, stored apart from the rows that every job has."""
