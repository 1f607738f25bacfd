"""Health, counts and measures of the whole store."""
