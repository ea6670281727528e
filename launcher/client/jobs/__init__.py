"""A job that was created: its log, its states, its outcome, its bill and its files."""
