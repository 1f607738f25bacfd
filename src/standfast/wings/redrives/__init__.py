"""Redrives: hundreds of letters replayed as one decision."""
