"""Ranks that die are started again by torchrun, within one job, and read on without a loss.

torchrun restarts ranks when it is told how often: PET_MAX_RESTARTS is its --max-restarts, and goes
with the job's Environment. With the static rendezvous its store keeps the keys of the ranks that
have died, so a script that restarts gives each life a prefix.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts
from programs import PIPELINE

from launcher.shared import Launch

pytestmark = pytest.mark.slow

#: Every rank of the first two lives is killed, or raises, some steps after the last checkpoint.
TRAIN = """
import json, os, pathlib, signal
import torch.distributed as dist
from launcher.data import DataLoader

folder = pathlib.Path(os.environ["FOLDER"])
life, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
# torchrun's store outlives the ranks: without a name of its own, a life finds the last one's keys.
dist.init_process_group(
    "gloo", store=dist.PrefixStore(f"life-{life}", store), rank=rank, world_size=world
)
loader = DataLoader("pipeline:train_set", batch_size=4, shuffle=True, seed=1)
saved = folder / "checkpoint"
if saved.exists():
    loader.load_state_dict(json.loads(saved.read_text()))
place = loader.state_dict()
notes = (folder / f"life-{life}-rank-{rank}").open("a", buffering=1)
print(json.dumps({"place": [place["epoch"], place["position"]]}), file=notes)
for epoch in range(place["epoch"], 2):
    for step, batch in enumerate(loader, 1):
        print(json.dumps({"epoch": epoch, "ids": batch["label"].tolist()}), file=notes)
        if step % 3 == 0:
            dist.barrier()
            if rank == 0:
                (folder / "new").write_text(json.dumps(loader.state_dict()))
                (folder / "new").rename(saved)
        if (life, rank, step) == (0, 1, 5):
            os.kill(os.getpid(), signal.SIGKILL)
        if (life, rank, step) == (1, 0, 4):
            raise RuntimeError("loss is nan")
dist.destroy_process_group()
"""


def notes(folder: Path, life: int, rank: int) -> list[dict[str, object]]:
    text = (folder / f"life-{life}-rank-{rank}").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("train", [1, 2], ids=["one host", "two hosts"])
def test_ranks_that_torchrun_starts_again_read_on(
    make_hosts: Callable[..., Hosts], tmp_path: Path, train: int
) -> None:
    pytest.importorskip("torch")
    hosts = make_hosts(
        {"pipeline.py": PIPELINE, "train.py": TRAIN},
        data=1,
        train=train,
        workers_per_host=2,
        launch=Launch.TORCHRUN,
        processes_per_host=2 // train,
        environment={"FOLDER": str(tmp_path), "PET_MAX_RESTARTS": "2"},
    )
    hosts.run()
    assert hosts.processes() == []

    kept: Counter[tuple[int, int]] = Counter()
    places = [notes(tmp_path, life, 0)[0]["place"] for life in range(3)]
    assert places == [[0, 0], [0, 24], [0, 48]], "each life began at the last checkpoint"
    for life, steps in enumerate([3, 3, None]):  # that a later life did not repeat
        lists = [notes(tmp_path, life, rank)[1:][:steps] for rank in range(2)]
        assert len(lists[0]) == len(lists[1])
        kept.update((note["epoch"], index) for note in lists[0] + lists[1] for index in note["ids"])
    once = {(epoch, index) for epoch in range(2) for index in range(103)}
    assert set(kept) == once
    assert kept.total() == 2 * (103 + 1), "one pad in each epoch"
