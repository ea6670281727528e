"""Batch composition and loading: which samples are in which batch, the same on every host."""
