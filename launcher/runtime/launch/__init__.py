"""The roles of hosts, and the programs that they start."""
