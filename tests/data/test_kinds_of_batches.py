"""Batches of every kind in a real job: what the data group sends is what the rank itself makes."""

from __future__ import annotations

import pytest
from hosts import Hosts
from made_hosts import MakeHosts

PIPELINE = """
import collections
import dataclasses
import datetime
import enum
import functools
from typing import Any, NamedTuple
import numpy as np
import torch
from classes import Span
from elsewhere import Hidden

class Colour(enum.Enum):
    RED = "r"

class Point(NamedTuple):
    x: Any
    y: Any

@dataclasses.dataclass(frozen=True)
class Box:
    corner: Any
    size: Any

class Samples:
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return {"point": Point(torch.full((2,), index, dtype=torch.bfloat16), str(index)),
                "pair": (index, [np.float32(index), "a"]), "box": Box(index % 2 == 0, b"x")}

def train_set():
    return Samples()

def everything(samples):
    n = samples[0]["pair"][0]
    return {
        "ragged": [torch.arange(i % 5) for i in range(n)],
        "tensors": [torch.ones(2, n, dtype=getattr(torch, name)) for name in
                    ("bfloat16", "float8_e4m3fn", "bool", "complex64", "uint16", "uint64")],
        "arrays": (np.arange(n)[::-1], np.array(n), np.zeros((0, 3)), np.array(["a", "né"]),
                   np.array(["2026-01-01"], "M8[D]"), np.asfortranarray(np.ones((2, n)))),
        "grad": torch.ones(n, requires_grad=True),
        "numbers": [n, 1 << 100, -0.0, float("nan"), float("inf"), True, 1j, np.float64(n)],
        "texts": ["\\ud83d", "\\ud83d\\ude00", "x" * 5000, b"\\0raw", "", None],
        ("a", 1): Point(Box([], ()), {}), 2: 2, None: None, 0.5: b"k", b"k": 0.5,
        "classes": [Box(Point(n, n), "s")] * (n % 3),
        "own": [Span(n, torch.ones(n)), Colour.RED, {Colour.RED: datetime.date(2026, 1, 1 + n)}],
        "more": [collections.OrderedDict(b=n, a=1), {n}, np.zeros(n, "i4,f8"),
                 torch.eye(n).to_sparse(), torch.Size([n])],
    }

def hidden(samples):
    return Hidden(samples)

def pickled(samples):
    return [functools.partial(everything, samples), Hidden(samples), np.array([1, None])]
"""

CLASSES = """
from launcher.data import register_codec

class Span:
    def __init__(self, low, high):
        self.low, self.high = low, high

register_codec(Span, encode=vars, decode=lambda fields: Span(**fields))
"""

ELSEWHERE = """
import collections

Hidden = collections.namedtuple("Hidden", "samples")
"""

SCRIPT = """
import functools, sys
import numpy as np
import torch
from launcher.data import DataLoader
from classes import Span
from pipeline import Box, Point

def told(value):
    kind = type(value).__name__
    if isinstance(value, functools.partial):
        return f"{kind}:{value.func.__name__}{told(value.args)}"
    if isinstance(value, np.ndarray) and value.dtype == object:
        return f"{kind}:{value.tolist()}"
    if isinstance(value, torch.Tensor) and value.is_sparse:
        return f"{kind} sparse:{told(value.coalesce().indices())}{told(value.coalesce().values())}"
    if isinstance(value, torch.Tensor):
        raw = bytes(value.contiguous().view(-1).view(torch.uint8).tolist())
        return f"{kind}:{value.dtype}{list(value.shape)}{value.requires_grad}{raw.hex()}"
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{kind}:{value.dtype.str}{value.shape}{value.tobytes().hex()}"
    if isinstance(value, dict):
        return f"{kind}{[(told(key), told(part)) for key, part in value.items()]}"
    if isinstance(value, (Box, Span)):
        return f"{kind}{told(vars(value))}"
    if isinstance(value, (list, tuple)):
        return f"{kind}{[told(part) for part in value]}"
    return f"{kind}:{value!a}"

def read(name, **arguments):
    loader = DataLoader("pipeline:train_set", batch_size=4, name=name, **arguments)
    for step, batch in enumerate(loader):
        print(f"told {name} {step} {told(batch)}", flush=True)

read("collated")
read("given", collate_fn="pipeline:everything")
del sys.modules["elsewhere"]  # as if the script had imported only some of the job's modules
try:
    read("unknown", collate_fn="pipeline:hidden")
except Exception as error:
    print(f"told unknown {error}", flush=True)
    read("pickled", collate_fn="pipeline:pickled", allow_pickle=True)
"""


def told(hosts: Hosts) -> list[str]:
    hosts.run()
    return [line for line in hosts.output().splitlines() if line.startswith("told ")]


@pytest.mark.long
def test_every_kind_of_batch_is_the_same_from_the_data_group_and_in_process(
    make_hosts: MakeHosts,
) -> None:
    pytest.importorskip("torch")
    files = {
        "pipeline.py": PIPELINE,
        "classes.py": CLASSES,
        "elsewhere.py": ELSEWHERE,
        "train.py": SCRIPT,
    }
    alone = told(make_hosts(files, train=1))
    served = told(make_hosts(files, data=1, train=1, checksums=True))
    assert len(alone) == 10
    assert served == alone
    assert "import it in the script, from elsewhere import Hidden" in alone[6]
    assert "partial:everything" in alone[-1]
    assert "Hidden[" in alone[-1]
    kinds = ["Tensor:torch.bfloat16[4, 2]", "Point[", "Box", "ndarray:<M8[D]", "float64:<f8"]
    kinds += ["Span", "Colour:", "date:", "OrderedDict[", "set:", "Tensor sparse", "Size["]
    for kind in kinds:
        assert kind in alone[0] + alone[3], kind
