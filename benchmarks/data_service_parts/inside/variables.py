"""The variables by which the harness tells the processes of a side what they are."""

#: Where the harness listens, "address:port", and the name of this side.
HARNESS = "BENCH_HARNESS"
SIDE = "BENCH_SIDE"
#: The folder of the batches that are expected.
PAYLOAD = "BENCH_PAYLOAD"
