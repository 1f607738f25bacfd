"""Workflows: steps that wait for each other."""
