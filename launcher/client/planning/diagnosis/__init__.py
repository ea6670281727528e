"""Diagnose a running or finished job: its limit, the confidence, and changes to make."""
