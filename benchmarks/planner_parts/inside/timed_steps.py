"""The training script: some steps that do not count, then others that are timed.

seconds: of parts of the run, from batch to batch. step_seconds, step_cpu: of the script alone,
between two batches.
"""

import itertools
import json
import os
import time

import work_samples

from launcher.data import DataLoader

size, warm, steps = (int(os.environ[f"BENCH_{name}"]) for name in ("BATCH", "WARM", "STEPS"))
units = float(os.environ["BENCH_TRAIN"])
PARTS = 6

reading = iter(DataLoader("work_samples:train_set", batch_size=size, epochs=None, tensors=False))
for _ in itertools.islice(reading, warm):
    work_samples._burn(units)
in_steps, cpu, seconds = 0.0, 0.0, []
for _ in range(PARTS):
    began = time.perf_counter()
    for _ in itertools.islice(reading, steps):
        at, cpu_at = time.perf_counter(), time.thread_time()
        work_samples._burn(units)
        in_steps, cpu = in_steps + time.perf_counter() - at, cpu + time.thread_time() - cpu_at
    seconds.append((time.perf_counter() - began) / steps)
count = PARTS * steps
found = {"seconds": seconds, "step_seconds": in_steps / count, "step_cpu": cpu / count}
print(f"timed: {json.dumps(found)}", flush=True)
