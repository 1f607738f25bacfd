"""Imports: records of other queues, brought in once each, with their age, attempts, history and reasons."""
