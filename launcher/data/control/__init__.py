"""What the processes of the data service say to each other."""
