"""The hosts of a local job: their folders, environment, Python, processes and logs."""
