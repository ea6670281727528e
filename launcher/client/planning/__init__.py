"""Plans made before a job is sent: its cost, its instance types and the cuts of its model."""
