"""The one judge of causes: what limits a job's steps, how surely, and what would help.

Pure, with the standard library alone: a job asks it at its end, and the client about any job.
"""
