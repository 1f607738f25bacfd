"""Command handlers: programs that do a queue's work."""
