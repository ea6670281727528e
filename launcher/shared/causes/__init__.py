"""The one judge of causes: what limits the steps of a job, how surely, and what would mend it.

Pure, with the standard library alone: a job asks it at its end, and the client about any job.
"""
