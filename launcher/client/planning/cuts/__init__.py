"""The cuts of a model into pipeline stages, searched in a process of the job's side."""
