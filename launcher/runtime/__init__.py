"""Runtime inside a host: read the job's files, run the host's role, end with a clear outcome."""
