"""Inside the task: one supervisor process beside the user's command. Standard library only."""
