"""What became of a job: its hosts, its summary, its bill, and the files that it left."""
