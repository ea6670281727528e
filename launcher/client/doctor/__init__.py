"""Checks of what works here and what does not, each with a fix; nothing is created, here or on AWS.

The three parts: this machine, AWS as far as it is visible from here, and a job file.
"""
