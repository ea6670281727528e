"""What verbs print: lines, tables, charts, JSON, questions, and the live view of a job."""
