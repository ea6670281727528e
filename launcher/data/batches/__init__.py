"""What a batch is, and its bytes: taken apart, put together, framed."""
