"""The supervisor: one process inside the task, beside the user's command. Standard library and google-re2 only."""
