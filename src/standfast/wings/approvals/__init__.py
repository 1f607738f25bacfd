"""Approvals: a second person says yes or no to exactly what was shown."""
