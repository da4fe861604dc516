"""From what was found to the answer: candidates, the choice among them, the verdict of a job."""
