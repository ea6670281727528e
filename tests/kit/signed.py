"""A dataset whose samples tell which host prepared them, ranks that note what they received, and
what they should have: every sample in its place, whoever prepared it.

A rank waits at each place (epoch-step) that GATES names until the test opens it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from hosts import Host, Hosts

from launcher.data.order import BatchPlan, StreamSpec
from launcher.data.repeatable import preserve_random_states, seeding

LENGTH, BATCH_SIZE, EPOCHS, SEED = 303, 4, 2, 3
#: Batches that a train host holds ahead of its rank: 1 MiB, of 64 KiB and one more for the labels.
WINDOW = 8

PIPELINE = f"""
import os
import numpy as np

class Signed:
    def __len__(self):
        return {LENGTH}

    def __getitem__(self, index):
        noise = np.random.rand(128, 32).astype(np.float32)
        return {{"noise": noise, "id": index, "host": os.environ["SM_CURRENT_HOST"]}}

def train_set():
    return Signed()
"""

READER = f"""
import hashlib, json, os, pathlib, time
from launcher.data import DataLoader

def wait_at(place):
    gate = pathlib.Path(os.environ["FOLDER"], place)
    print("at the gate", place, flush=True)
    deadline = time.monotonic() + 200
    while not gate.exists():
        assert time.monotonic() < deadline, f"nobody has opened {{place}}"
        time.sleep(0.01)

gates = os.environ.get("GATES", "").split()
loader = DataLoader("pipeline:train_set", batch_size={BATCH_SIZE}, shuffle=True, seed={SEED})
for epoch in range({EPOCHS}):
    for step, batch in enumerate(loader):
        if f"{{epoch}}-{{step}}" in gates:
            wait_at(f"{{epoch}}-{{step}}")
        said = {{"epoch": epoch, "step": step, "ids": batch["id"].tolist()}}
        said["noise"] = hashlib.sha256(batch["noise"].tobytes()).hexdigest()
        print("received", json.dumps({{**said, "host": batch["host"][0]}}), flush=True)
"""

FILES = {"pipeline.py": PIPELINE, "train.py": READER}
#: Ranks are faster than workers, which always have leases.
SLOW = PIPELINE.replace("noise = ", "import time; time.sleep(0.004)\n        noise = ", 1)
SLOW_FILES = {**FILES, "pipeline.py": SLOW}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What a rank received. noise: the hash of the random bytes. host: who prepared it."""

    epoch: int
    step: int
    ids: list[int]
    noise: str
    host: str = ""


def received(host: Host) -> list[Batch]:
    """What the rank of a train host has received, in its order."""
    found = re.findall(r"^received (.*)$", host.output, re.MULTILINE)
    return [Batch(**json.loads(line)) for line in found]


def train_hosts(hosts: Hosts) -> list[Host]:
    return [hosts[name] for name in hosts.members["train_group"]]


def check_received(hosts: Hosts) -> None:
    """Each rank received its batches in their order; together, every sample once, and the pads."""
    ranks = train_hosts(hosts)
    for rank, host in enumerate(ranks):
        assert _order_hash(received(host)) == _order_hash(_planned(rank, len(ranks))), host.output
    pads = -LENGTH % len(ranks)
    for epoch in range(EPOCHS):
        batches = [batch for host in ranks for batch in received(host) if batch.epoch == epoch]
        counts = Counter(index for batch in batches for index in batch.ids)
        assert set(counts) == set(range(LENGTH))
        assert counts.total() == LENGTH + pads
    assert hosts.processes() == []


def _order_hash(batches: list[Batch]) -> str:
    order = [(batch.epoch, batch.step, batch.ids, batch.noise) for batch in batches]
    return hashlib.sha256(json.dumps(order).encode()).hexdigest()


def _planned(rank: int, world: int) -> list[Batch]:
    name = "pipeline:train_set"
    spec = StreamSpec(name=name, dataset=name, batch_size=BATCH_SIZE, shuffle=True, seed=SEED)
    plans = [
        BatchPlan(spec=spec, length=LENGTH, epoch=epoch, rank=rank, world=world, position=0)
        for epoch in range(EPOCHS)
    ]
    return [batch for plan in plans for batch in _batches(plan)]


def _batches(plan: BatchPlan) -> Iterator[Batch]:
    for step in range(plan.steps):
        digest = hashlib.sha256()
        with preserve_random_states():
            for position in plan.positions(step):
                seeding.seed_everything(seeding.sample_seed(SEED, plan.epoch, position))
                digest.update(np.random.rand(128, 32).astype(np.float32).tobytes())
        yield Batch(
            epoch=plan.epoch, step=step, ids=plan.sample_ids(step), noise=digest.hexdigest()
        )
