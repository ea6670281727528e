"""AWS's toolkit on a local host: how its script mode starts a job's programs."""
