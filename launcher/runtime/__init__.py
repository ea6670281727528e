"""Runtime inside a host: read the job's files, play the host's role, end with a clear outcome."""
