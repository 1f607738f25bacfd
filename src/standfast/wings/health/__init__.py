"""Health, counts and measurements of the whole store."""
