"""Jobs as people see and operate them: find, read, explain, retry, cancel."""
