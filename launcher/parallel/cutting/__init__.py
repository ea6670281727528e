"""Tracing of a model, checks of its stages, and the resolution of where they start."""
