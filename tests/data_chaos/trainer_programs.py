"""The user's code in failure schedules: samples that tell who worked on them, and a trainer."""

#: Each sample costs time, twenty times as much while a file of the worker's number says so. The
#: worker's own log says what it was doing when something happened to it: "<" a sample has begun,
#: ">" it is ready, "s" it was a slow one.
PIPELINE = """
import os, time
from pathlib import Path
import numpy as np

FOLDER = Path(os.environ.get("CHAOS_FOLDER", "."))
LENGTH, BYTES, SECONDS = (float(word) for word in os.environ.get("CHAOS_DATA", "1 1 0").split())

class Samples:
    log = None

    def __len__(self):
        return int(LENGTH)

    def __getitem__(self, index):
        noise = np.random.randint(0, 256, int(BYTES), dtype=np.uint8)
        if SECONDS:
            self.work()
        return {"id": index, "noise": noise}

    def work(self):
        me = str(os.getpid())
        if self.log is None:
            Samples.log = os.open(FOLDER / "work" / me, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(self.log, b"<")
        slow = (FOLDER / "slow" / me).exists()
        time.sleep(SECONDS * (20 if slow else 1))
        os.write(self.log, b"s>" if slow else b">")

def train_set():
    return Samples()
"""

#: Notes every batch it gets; every few steps all ranks meet and the first saves where they are.
TRAIN = """
import hashlib, json, os, socket, time
from pathlib import Path
from launcher.data import DataLoader

folder, generation = Path(os.environ["CHAOS_FOLDER"]), os.environ["CHAOS_GENERATION"]
job = json.loads(os.environ["CHAOS_TRAINER"])
rank = os.environ["RANK"]
loader = DataLoader("pipeline:train_set", **job["loader"])
saved = folder / "checkpoint.json"
if saved.exists():
    loader.load_state_dict(json.loads(saved.read_text()))
place = loader.state_dict()
meeting = socket.socket(socket.AF_UNIX)
meeting.connect(str(folder / "meeting"))
meeting.sendall(generation.encode() + b"\\n")
notes = os.open(folder / f"received-{generation}-{rank}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

def note(**fields):
    os.write(notes, json.dumps(fields).encode() + b"\\n")

def save():
    meeting.sendall(b".")
    assert meeting.recv(1), "the meeting is over"
    if rank == "0":
        (folder / "checkpoint.new").write_text(json.dumps(loader.state_dict()))
        (folder / "checkpoint.new").rename(saved)

note(epoch=place["epoch"], position=place["position"])
for epoch in range(place["epoch"], job["epochs"]):
    for step, batch in enumerate(loader, 1):
        ids = [int(index) for index in batch["id"]]
        note(ids=ids, hash=hashlib.sha256(batch["noise"].tobytes()).hexdigest())
        time.sleep(job["seconds"])
        if step % job["save_every"] == 0:
            save()
note(ended=True)
"""
