"""Everything a plain job does not need, one folder for each noun."""
