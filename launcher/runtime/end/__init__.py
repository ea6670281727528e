"""The end of a job: report it, pass it on, and detect hangs and lost hosts."""
