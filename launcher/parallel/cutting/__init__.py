"""Trace a model, check its stages, and resolve where they start."""
