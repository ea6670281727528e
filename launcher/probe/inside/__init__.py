"""What runs on the probe's hosts: the standard library alone, and nothing of Launcher.

It travels as one zip that Python runs as it is, so that what is seen is the platform's own doing.
"""
