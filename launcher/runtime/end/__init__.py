"""The end of a job: who reports it, who is told, and what a hang or a lost host looks like."""
