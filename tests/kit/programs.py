"""The user's code in the tests: datasets, scripts that read them, and a task."""

from pathlib import Path

#: Augmentation from all three global generators that people use, on samples that tell who they are.
PIPELINE = """
import random
import numpy as np

class Digits:
    def __len__(self):
        return 103

    def __getitem__(self, index):
        noise = np.random.rand(4, 4).astype(np.float32) * random.random()
        return {"image": noise + index, "label": index, "name": f"digit {index}"}

def train_set():
    return Digits()
"""

#: Prints one hash over all bytes of all batches, epoch by epoch, as a plain script would.
READER = """
import hashlib, os
from launcher.data import DataLoader

loader = DataLoader("pipeline:train_set", batch_size=8, shuffle=True, seed=3)
for epoch in range(2):
    digest = hashlib.sha256()
    for batch in loader:
        digest.update(batch["image"].tobytes() + batch["label"].tobytes())
        digest.update(repr(batch["name"]).encode())
    print(f"rank={os.environ['RANK']} epoch={epoch} sha256={digest.hexdigest()}", flush=True)
"""
#: A part of a script that adds up its ranks through MPI's own library, into `total`.
ADD_UP = """
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
world, kind, add = (
    ctypes.byref(ctypes.c_char.in_dll(mpi, name))
    for name in ("ompi_mpi_comm_world", "ompi_mpi_int", "ompi_mpi_op_sum")
)
assert mpi.MPI_Init(None, None) == 0
mine, total = ctypes.c_int(int(os.environ["RANK"])), ctypes.c_int()
assert mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(total), 1, kind, add, world) == 0
"""
#: A task that trains in milliseconds, to be cut.
TASK = """
import torch
from torch import nn
from launcher.trainers import Task

def make(layers=6, width=8):
    def model():
        return nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
    return Task(
        model=model,
        train_data="task:train_set",
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        batch_size=8,
        epochs=1,
    )

def train_set():
    torch.manual_seed(0)
    return [(torch.randn(8), torch.randn(8)) for _ in range(8)]
"""


def map_style(sample: str, length: object, *, before: str = "") -> str:
    """The source of a dataset. sample: an expression of `index`; before: lines of the module."""
    return f"""
import time
import numpy as np
{before}

class Samples:
    def __len__(self):
        return {length}

    def __getitem__(self, index):
        return {sample}

def train_set():
    return Samples()
"""


def write_task(folder: Path, text: str = TASK) -> None:
    (folder / "task.py").write_text(text)
