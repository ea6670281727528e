"""A worker collates large batches into memory that it has used before."""

from __future__ import annotations

import re

import pytest
from made_hosts import MakeHosts
from programs import map_style

#: Samples of 40 MB, which glibc would ask the kernel for each time, with the faults so far.
PIPELINE = map_style(
    '{"image": image, "faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt}',
    length=30,
    before="import resource\nimage = np.arange(5_000_000)",
)
SCRIPT = """
from launcher.data import DataLoader
for batch in DataLoader("pipeline:train_set"):
    assert int(batch["image"].sum()) == 4_999_999 * 2_500_000
    print("faults", int(batch["faults"][0]), flush=True)
"""


@pytest.mark.long
def test_large_batches_cost_no_page_faults(make_hosts: MakeHosts) -> None:
    files = {"pipeline.py": PIPELINE, "train.py": SCRIPT}
    hosts = make_hosts(files, data=1, prefetch_bytes=128 << 20)
    hosts.run()
    faults = [int(text) for text in re.findall(r"^faults (\d+)$", hosts.output(), re.MULTILINE)]
    assert len(faults) == 30
    # Measured for each batch: 28, and 590 with new memory (9,766 where there are no huge pages).
    assert faults[-1] - faults[9] < 20 * 100
