"""Every way to read a stream, as a module of datasets and the loaders' arguments.

Read in this process by tests of the loader, and over the service by a job: the same bytes.
"""

MODES_PIPELINE = """
import random
import numpy as np

class Set:
    def __init__(self, length=37):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return {"x": np.random.rand(3).astype(np.float32) + index, "id": index,
                "name": f"n{index}", "share": random.random()}

class Broken(Set):
    def __getitem__(self, index):
        if index % 10 == 7:
            raise ValueError(f"sample {index} is damaged")
        return super().__getitem__(index)

class AtOnce(Set):
    def __getitem__(self, index):
        raise NotImplementedError("batches only")

    def __getitems__(self, indices):
        noise = np.random.rand(len(indices))
        return [{"id": i, "x": n} for i, n in zip(indices, noise)]

def train_set():
    return Set()

def broken_set():
    return Broken()

class AllBroken(Set):
    def __getitem__(self, index):
        raise ValueError("all are damaged")

def all_broken():
    return AllBroken()

def at_once_set():
    return AtOnce()

def balanced(length, epoch, seed):
    order = [i for i in range(length) for _ in range(1 + i % 3)]
    random.Random(seed + epoch).shuffle(order)
    return order[epoch:]

def buckets(length, epoch, seed):
    return [range(i, min(i + 1 + i % 5, length)) for i in range(epoch, length, 5)]

calls = []

def balanced_and_counted(length, epoch, seed):
    calls.append(epoch)
    return balanced(length, epoch, seed)

on = random.Random(0)

def shuffled_on(length, epoch, seed):
    return on.sample(range(length), length)

def buckets_shuffled_on(length, epoch, seed):
    return [shuffled_on(length, epoch, seed)]

def mixed(samples):
    weight = random.random() + np.random.rand()
    return [weight * sum(s["x"] for s in samples), tuple(s["id"] for s in samples), None, weight]

def shown(sample):
    return sample["id"], sample["x"] * 2
"""

#: name: (dataset, arguments)
MODES: dict[str, tuple[str, dict[str, object]]] = {
    "plain": ("train_set", {"batch_size": 4, "shuffle": True}),
    "one by one": ("train_set", {"batch_size": None, "shuffle": True}),
    "one by one, converted": ("train_set", {"batch_size": None, "collate_fn": "shown"}),
    "sampler": ("train_set", {"batch_size": 4, "sampler": "balanced"}),
    "batch_sampler": ("train_set", {"batch_sampler": "buckets"}),
    "collate_fn": ("train_set", {"batch_size": 4, "collate_fn": "mixed"}),
    "skip": ("broken_set", {"batch_size": 4, "skips": True}),
    "skip one by one": ("broken_set", {"batch_size": 1, "skips": True}),
    "at once": ("at_once_set", {"batch_size": 4, "shuffle": True, "seed": 5}),
}

#: Prints a hash of all that each mode gives, types included.
MODES_READER = f"""
import hashlib, os
import numpy as np
from launcher.data import DataLoader, LoaderOptions

MODES = {MODES!r}

def shown(value):
    if isinstance(value, dict):
        return "{{" + ",".join(f"{{k!r}}:{{shown(v)}}" for k, v in value.items()) + "}}"
    if isinstance(value, (list, tuple)):
        return type(value).__name__ + "(" + ",".join(map(shown, value)) + ")"
    if hasattr(value, "dtype"):
        array = np.asarray(value)
        return f"{{type(value)}} {{array.dtype}} {{array.shape}} {{array.tobytes().hex()}}"
    return f"{{type(value)}} {{value!r}}"

for name, (dataset, arguments) in MODES.items():
    for key in ("sampler", "batch_sampler", "collate_fn"):
        if key in arguments:
            arguments[key] = f"pipeline:{{arguments[key]}}"
    options = LoaderOptions(on_error="skip" if arguments.pop("skips", False) else "raise")
    arguments = {{"tensors": False, "options": options, **arguments}}
    loader = DataLoader(f"pipeline:{{dataset}}", name=name, **arguments)
    for epoch in range(2):
        digest = hashlib.sha256()
        steps = 0
        for steps, batch in enumerate(loader, 1):
            digest.update(shown(batch).encode())
        rank = os.environ["RANK"]
        print(f"rank={{rank}} mode={{name!r}} {{epoch=}} {{steps=}} sha256={{digest.hexdigest()}}",
              flush=True)
"""
