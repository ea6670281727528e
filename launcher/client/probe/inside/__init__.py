"""The program of the probe's hosts: standard library only, nothing else of Launcher.

It travels as one zip that Python runs directly, so that only the platform's behaviour is seen.
"""
