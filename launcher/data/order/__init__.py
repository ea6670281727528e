"""Which samples are in which batch, and how they are loaded: the same wherever it is done."""
