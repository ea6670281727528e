"""Diagnosis of a job that runs or ran: what limits its step, how surely, and what to change."""
