"""Profiling of a model's modules: seconds and bytes, measured or estimated."""
