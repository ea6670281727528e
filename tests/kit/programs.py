"""The user's code in the tests: a dataset with augmentation, and a script that reads it."""

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
