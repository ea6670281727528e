"""The host: its environment, processes, output, and what is read and installed before it starts."""
