"""What the modules of a model cost: seconds and bytes, measured or estimated."""
