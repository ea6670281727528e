"""The variables by which the harness tells the processes of a side what they are."""

#: Where the harness listens, "address:port", and the name of this side.
HARNESS = "BENCH_HARNESS"
SIDE = "BENCH_SIDE"
#: The folder of the batches that are expected.
PAYLOAD = "BENCH_PAYLOAD"
#: Samples in a batch, bytes in each, and the function of pipeline.py that makes the dataset.
BATCH = "BENCH_BATCH"
SAMPLE_BYTES = "BENCH_SAMPLE_BYTES"
DATASET = "BENCH_DATASET"
#: What a sample costs: seconds asleep, or rounds of arithmetic.
SLEEP = "BENCH_SLEEP"
BURN = "BENCH_BURN"
#: The deviation of the seconds of samples, over their mean.
VARIATION = "BENCH_VARIATION"
