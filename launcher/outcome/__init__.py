"""The outcome of a job: its hosts, its summary, its cost, and its artifacts."""
