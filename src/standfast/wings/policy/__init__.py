"""The policy: what becomes of letters, and which of them may be replayed."""
