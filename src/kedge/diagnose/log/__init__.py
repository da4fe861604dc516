"""What stands in a log: its lines, prefixes, tracebacks, and its end."""
