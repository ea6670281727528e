"""A host and its ranks, as processes, and what a rank does in a step."""
