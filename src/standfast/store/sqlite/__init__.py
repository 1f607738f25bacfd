"""One SQLite file, no server."""
