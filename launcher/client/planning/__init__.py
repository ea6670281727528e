"""Planning before a job is submitted: cost, capacity, profiles and the recommended cluster.

Its subpackages are about jobs that ran: comparison, diagnosis and reporting.
"""
