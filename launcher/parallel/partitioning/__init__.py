"""Partitioning of a model: the costs of its modules, and the best cuts."""
