"""Checks of this machine, of AWS, and of a job file, each finding with a fix.

Nothing is created, neither on this machine nor on AWS.
"""
