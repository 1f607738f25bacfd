"""Notices: what was committed, in commit order, for those who follow."""
