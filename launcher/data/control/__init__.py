"""Messages between the processes of the data service."""
