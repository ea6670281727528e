"""Where to cut a model: what its modules cost, and the best cuts for it."""
