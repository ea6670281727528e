"""Plans made before a job is submitted: its cost, its instance types and the cuts of its model."""
