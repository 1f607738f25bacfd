"""Notices: what was committed, in commit order, for subscribers."""
