"""The command line: every command is a thin door over `queue/`."""
