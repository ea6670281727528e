"""What ranks run: each module here is started under torchrun, and rank 0 tells what it found."""
