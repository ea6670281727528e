"""Plans made before a job is submitted, and what its figures say of it afterwards."""
