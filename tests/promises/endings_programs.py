"""The user's code of the matrix: a dataset and two scripts that misbehave where they are told to.

CAUSE and WHO come in the job's environment: "rank 0", "other rank" or "worker". What is injected
from outside (a signal, a memory limit) leaves CAUSE empty: these programs then only wait for it.
"""

#: What each cause does; `wait_for(name)` waits for a file in the channel "signals".
FAULTS = """
import os, sys, time
from pathlib import Path

signals = Path(os.environ["SM_CHANNEL_SIGNALS"])

def wait_for(name):
    while not (signals / name).exists():
        time.sleep(0.02)

def misbehave(who):
    if os.environ.get("WHO") != who or not (cause := os.environ.get("CAUSE")):
        return
    print(f"misbehaves: {who}", flush=True)
    FAULTS[cause]()

def raise_error():
    raise ValueError("loss is nan")

def fill_disk():
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "wb") as file:
        while True:
            file.write(os.urandom(1 << 20))

def write_to_full_device():
    with open("/dev/full", "wb", buffering=0) as file:
        file.write(b"x")

def allocate():
    # Only a process that was put under a limit dies of this; one that comes after it does not.
    wait_for("allocate")
    held = [bytearray(os.urandom(1 << 20)) for _ in range(200)]

def exhaust_address_space():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    bytearray(2 << 30)

def hang():
    time.sleep(1000)

def import_missing():
    import no_such_module

FAULTS = {
    "exception": raise_error,
    "sys.exit": lambda: sys.exit(3),
    "disk full": fill_disk,
    "full device": write_to_full_device,
    "memory limit": allocate,
    "MemoryError": exhaust_address_space,
    "hang": hang,
    "import error": import_missing,
    "missing file": lambda: open("no-such-file.csv"),
}
"""

PIPELINE = """
import os
import numpy as np
from faults import misbehave

if os.environ.get("CAUSE") == "import error":
    misbehave("worker")

class Samples:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        if index == 5:
            misbehave("worker")
        return np.full((4,), index, dtype=np.float32)

def train_set():
    return Samples()
"""

#: Reads the data again and again until the file "go" is there, and leaves a model.
TRAIN = """
import os
from pathlib import Path
from faults import misbehave, signals
from launcher.data import DataLoader

rank = int(os.environ["RANK"])
loader = DataLoader("pipeline:train_set", batch_size=4)
epoch = 0
while epoch < 1 or not (signals / "go").exists():
    for batch in loader:
        pass
    if epoch == 0:
        print(f"trains: rank {rank}", flush=True)
        misbehave("rank 0" if rank == 0 else "other rank")
    epoch += 1
Path(os.environ["SM_MODEL_DIR"], f"weights-{rank}").write_bytes(os.urandom(2 << 20))
"""

#: All ranks in collectives, for ever.
COLLECTIVES = """
import torch
import torch.distributed as dist
from faults import misbehave

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(10**9):
    if step == 2:
        misbehave("rank 0" if rank == 0 else "other rank")
    dist.all_reduce(torch.ones(1))
"""
