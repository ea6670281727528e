"""Tracing a model: the calls of its modules, and whatever they change meanwhile."""
