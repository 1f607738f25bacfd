"""One module appends, another one reads and removes the file."""
