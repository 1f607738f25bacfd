"""The progress that running jobs report."""
