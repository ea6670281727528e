"""A plain script: it takes batches, and computes for a time, until its seconds are over."""

import time

from work import SETTINGS, burn

from launcher.data import DataLoader

end = time.monotonic() + SETTINGS["seconds"]
for _ in DataLoader(
    "pipeline:train_set", batch_size=SETTINGS["batch"], shuffle=True, seed=SETTINGS["seed"]
):
    burn(SETTINGS["step_cpu"])
    if time.monotonic() > end:
        break
