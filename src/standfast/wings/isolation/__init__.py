"""Isolation: plain handlers that run in a child process, which is killed at their timeout or cancel."""
