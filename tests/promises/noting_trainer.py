"""The user's script in failure schedules: it notes every batch that it gets.

Every few steps all ranks meet, and the first saves where they are: by its own state, which speaks
for all, or by those of all ranks when batches come in any order.
"""

import hashlib
import json
import logging
import os
import socket
import time
from pathlib import Path
from typing import Any

from noisy_samples import Measurements

from launcher.data import DataLoader, LoaderOptions

logging.basicConfig(level=logging.INFO, format="%(message)s")  # each epoch's counts
folder, generation = Path(os.environ["CHAOS_FOLDER"]), os.environ["CHAOS_GENERATION"]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
job = json.loads(os.environ["CHAOS_TRAINER"])
options = LoaderOptions(**{name: job["loader"].pop(name) for name in ("uneven", "on_error")})
loader = DataLoader(**job["loader"], options=options)
saved = folder / "checkpoint.json"
checkpoint = json.loads(saved.read_text()) if saved.exists() else {"since": None}
if "state" in checkpoint:
    loader.load_state_dict(checkpoint["state"])
place = loader.state_dict()
meeting = socket.socket(socket.AF_UNIX)
meeting.connect(str(folder / "meeting"))
meeting.sendall(generation.encode() + b"\n")
notes = os.open(folder / f"received-{generation}-{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)


def note(**fields: object) -> None:
    os.write(notes, json.dumps(fields).encode() + b"\n")


def save(received: int) -> None:
    """received: batches of this generation."""
    own = folder / f"state-{generation}-{received}-{rank}"
    own.write_text(json.dumps(loader.state_dict()))
    meeting.sendall(b".")
    assert meeting.recv(1), "the meeting is over"
    if rank == 0:
        ranks = [0] if job["loader"]["in_order"] else range(world)
        states = [json.loads(own.with_name(f"{own.name[:-1]}{r}").read_text()) for r in ranks]
        state = states[0] if job["loader"]["in_order"] else states
        new = folder / "checkpoint.new"
        new.write_text(json.dumps({"state": state, "since": [int(generation), received]}))
        new.rename(saved)


def content(batch: Any) -> tuple[list[int], bytes]:
    """The ids of a batch, and its noise."""
    if job["loader"]["collate_fn"] is None:
        return [int(index) for index in batch["id"]], batch["noise"].tobytes()
    assert type(batch) is Measurements, type(batch)
    assert batch.is_whole(), batch
    return batch.ids, batch.noise.tobytes()


note(place=place, since=checkpoint["since"])
received = 0
for _ in range(place["epoch"], job["epochs"]):
    for step, batch in enumerate(loader, 1):
        ids, noise = content(batch)
        note(ids=ids, hash=hashlib.sha256(noise).hexdigest())
        received += 1
        time.sleep(job["seconds"])
        if step % job["save_every"] == 0:
            save(received)
note(ended=True)
