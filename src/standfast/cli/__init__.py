"""The command line: its frame, and the commands that belong to no noun."""
