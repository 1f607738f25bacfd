"""Whole jobs as stored: read, listed and shown, for every wing that needs to see one."""
