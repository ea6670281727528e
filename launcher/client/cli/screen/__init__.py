"""The output of verbs: lines, tables, charts, JSON, questions, and the live view of a job."""
