"""A small job with a data host and a train host, to be run many times."""

from __future__ import annotations

from pathlib import Path

from waiting import wait_until

from launcher.client.jobs import Job
from launcher.client.request import prepare
from launcher.client.sessions import TERMINAL_STATUSES, LocalSession, place
from launcher.client.spec import DataService, InstanceGroup, JobSpec
from launcher.client.submit import send

PIPELINE = """
import numpy as np

class Numbers:
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return np.full(1000, index, dtype=np.int64)

def train_set():
    return Numbers()
"""
#: Reads so many epochs and prints the sum of the samples, which is known.
TRAIN = """
import os, sys
from launcher.data import DataLoader

print("port base", os.environ.get("LAUNCHER_PORT_BASE"), flush=True)
epochs = int(sys.argv[2])
loader = DataLoader("pipeline:train_set", batch_size=8, shuffle=True, seed=0)
for epoch in range(epochs):
    total = sum(int(batch[:, 0].sum()) for batch in loader)
    print(f"epoch {epoch} total {total}", flush=True)
"""
#: The sum of the samples of one epoch.
TOTAL = sum(range(64))
FOR_EVER = 10**9


class Crowd:
    """Jobs of one session, all made of the same two files."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        self.source.mkdir()
        (self.source / "pipeline.py").write_text(PIPELINE)
        (self.source / "train.py").write_text(TRAIN)
        self.home = folder / "home"

    def session(self, isolation: str | None = None) -> LocalSession:
        return LocalSession(self.home, isolation, stop_grace_seconds=20.0)

    def start(self, name: str, *, epochs: int, isolation: str | None = None) -> Job:
        spec = JobSpec(
            entry_point="train.py",
            source_dir=str(self.source),
            instance_groups=(InstanceGroup("data", "local"), InstanceGroup("train", "local")),
            data_service=DataService(datasets=("pipeline:train_set",)),
            hyperparameters={"epochs": epochs},
            use_spot_instances=True,
            max_wait=24 * 60 * 60,
            checkpoint_s3_uri=f"s3://bucket/{name}",
        )
        session = self.session(isolation)
        send(prepare(spec, place(spec, session, name)), session)
        return Job(name, session, poll_seconds=0.05)

    def folder(self, job: Job) -> Path:
        return self.home / "jobs" / job.name


def lines_of(job: Job) -> list[str]:
    return [line.text for line in job.logs()]


def wait_for_epoch(job: Job) -> None:
    """Wait until a job that goes on has read an epoch."""

    def has_read() -> bool:
        assert job.status not in TERMINAL_STATUSES, job.summary()
        return any(line.startswith("epoch 0 ") for line in lines_of(job))

    wait_until(has_read)
