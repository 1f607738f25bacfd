"""Rules about letters as values: what they look at, how a file of them is read, and the hash they are known by."""
