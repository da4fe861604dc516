"""Rules: the files they stand in, their compiled form, and the scan that finds them in a log."""
