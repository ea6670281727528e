"""The rows of the planner: its speed, and real jobs beside their simulation."""
