"""Moving a live SQLite store to PostgreSQL."""
