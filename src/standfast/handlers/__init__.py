"""The functions that do the work, and what they declare."""
