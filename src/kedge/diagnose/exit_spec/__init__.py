"""The container code by exit specifications, and the termination message."""
