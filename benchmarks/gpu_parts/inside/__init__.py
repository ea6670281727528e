"""What the ranks of a row run."""
