"""What it took: counted in each process, added up, published, judged."""
