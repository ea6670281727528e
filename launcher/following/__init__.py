"""Follow a job on any session: its hosts' lines merged by time, its states, and no hang."""
