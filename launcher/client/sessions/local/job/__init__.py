"""Local jobs: folder, processes, status and end."""
