"""Plans: the clusters for a workload, with the time and the price of a step."""
