"""A local job: its folder, its processes, its status, and its end."""
