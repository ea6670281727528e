"""Where a job runs: the ports of a platform, and the platforms that answer them."""
