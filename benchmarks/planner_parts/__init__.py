"""The planner beside a simulation of the data service, and beside real jobs."""
