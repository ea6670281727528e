"""Retries when AWS has no instances of a type: which types to try next, and for how long."""
