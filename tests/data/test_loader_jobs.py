"""The loader's arguments over the service: the same bytes, epochs that overlap, no head of line."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hosts import Hosts
from made_hosts import MakeHosts
from modes import MODES, MODES_PIPELINE, MODES_READER
from programs import PIPELINE, map_style

from launcher.data.receiver import memory_bytes

DATASETS = ("pipeline:train_set", "pipeline:broken_set", "pipeline:at_once_set")


def finish(hosts: Hosts) -> str:
    hosts.run()
    return hosts.output()


@pytest.mark.long
def test_every_mode_gives_the_same_bytes_and_types_with_and_without_data_hosts(
    make_hosts: MakeHosts,
) -> None:
    seen = {}
    for data in (0, 1):
        hosts = make_hosts(
            {"pipeline.py": MODES_PIPELINE, "train.py": MODES_READER},
            data=data,
            datasets=DATASETS,
            workers_per_host=2,
        )
        seen[data] = set(re.findall(r"^rank=0 mode=.*$", finish(hosts), re.MULTILINE))
    assert len(seen[0]) == 2 * len(MODES)
    assert seen[0] == seen[1]


#: Each function splits anew, in each process; torch is not there until it does.
SPLITS = """
def halves():
    from torch.utils.data import TensorDataset, random_split
    import torch
    return random_split(TensorDataset(torch.arange(64)), [0.75, 0.25])

def train_set():
    return halves()[0]

def validation_set():
    return halves()[1]
"""

READS_SPLITS = """
from launcher.data import DataLoader

for name in "train", "validation":
    for (batch,) in DataLoader(f"pipeline:{name}_set", batch_size=4, epochs=1):
        print(f"{name}={batch.tolist()}", flush=True)
"""


@pytest.mark.long
def test_a_random_split_is_the_same_in_every_process(make_hosts: MakeHosts) -> None:
    pytest.importorskip("torch")
    seen = []
    for data in (0, 2):
        hosts = make_hosts(
            {"pipeline.py": SPLITS, "train.py": READS_SPLITS},
            data=data,
            workers_per_host=2,
            datasets=("pipeline:train_set", "pipeline:validation_set"),
        )
        output = finish(hosts)
        seen.append(
            {
                name: [json.loads(found) for found in re.findall(rf"^{name}=(.*)$", output, re.M)]
                for name in ("train", "validation")
            }
        )
    assert seen[0] == seen[1]
    ids = [index for batches in seen[1].values() for batch in batches for index in batch]
    assert sorted(ids) == list(range(64))
    assert sum(map(len, seen[1]["train"])) == 48


#: Samples are the order of a set of texts, which follows the process's PYTHONHASHSEED.
ORDER_OF_A_SET = """
def order():
    return "".join({chr(code) for code in range(ord("a"), ord("z") + 1)})
"""

READS_ORDERS = """
from launcher.data import DataLoader
import pipeline

if __name__ == "__main__":
    print(f"order={pipeline.order()}", flush=True)
    for batch in DataLoader("pipeline:train_set", epochs=1):
        print(f"order={batch[0]}", flush=True)
"""


@pytest.mark.long
def test_a_set_of_texts_has_one_order_in_ranks_and_workers(make_hosts: MakeHosts) -> None:
    pipeline = map_style("order()", length=16, before=ORDER_OF_A_SET)
    files = {"pipeline.py": pipeline, "train.py": READS_ORDERS}
    output = finish(make_hosts(files, data=1, workers_per_host=2))
    orders = re.findall(r"^order=(\w+)$", output, re.MULTILINE)
    assert len(orders) == 17
    assert len(set(orders)) == 1


#: Two samples make a batch of 2.3 GiB; their rows are windows of the same noise, none like another.
LARGER_THAN_2_GIB = map_style(
    "np.lib.stride_tricks.as_strided("
    "np.random.default_rng(index).integers(0, 256, 2 << 20, np.uint8), (1177, 1 << 20), (797, 1))",
    length=2,
)

READS_IT = """
import hashlib
from launcher.data import DataLoader

for batch in DataLoader("pipeline:train_set", batch_size=2):
    print(f"bytes={batch.nbytes} sha256={hashlib.sha256(batch.data).hexdigest()}")
"""


@pytest.mark.slow
@pytest.mark.skipif(memory_bytes() < 8 << 30, reason="a worker and a slab have the batch at once")
def test_a_batch_above_2_gib_is_the_same_from_a_data_host(make_hosts: MakeHosts) -> None:
    files = {"pipeline.py": LARGER_THAN_2_GIB, "train.py": READS_IT}
    seen = [
        re.findall(
            r"^bytes=\d+ sha256=\w+$",
            finish(make_hosts(files, data=data, checksums=True)),
            re.MULTILINE,
        )
        for data in (0, 1)
    ]
    assert seen[0] == seen[1]
    assert [line.split()[0] for line in seen[1]] == [f"bytes={2 * 1177 << 20}"]


#: Notes each sample that it has loaded; while there is a gate, no sample is loaded.
GATED = """
import os, pathlib, time
FOLDER = pathlib.Path(os.environ["FOLDER"])

class Gated(list):
    def __getitem__(self, index):
        while (FOLDER / "gate").exists():
            time.sleep(0.01)
        with (FOLDER / "loads").open("a") as loads:
            loads.write(f"{index}\\n")
        return index

def train_set():
    return Gated(range(4))
"""

FIRST_BATCH = """
import gc, os, pathlib, time
from launcher.data import DataLoader, LoaderOptions
from launcher.errors import DataError
FOLDER = pathlib.Path(os.environ["FOLDER"])

options = LoaderOptions(verify=0)  # the loads are counted: none is done twice
loader = DataLoader("pipeline:train_set", name="train", options=options)
other = DataLoader("pipeline:train_set", name="validation", epochs=1)  # open at the same time
for number, batch in enumerate(loader, 1):
    if number == 4:
        deadline = time.monotonic() + 500
        while len((FOLDER / "loads").read_text().split()) < 5:
            assert time.monotonic() < deadline, "nothing of the next epoch was prepared"
            time.sleep(0.01)
        (FOLDER / "gate").touch()
print("first batch:", next(iter(loader)), flush=True)
(FOLDER / "gate").unlink()
assert [int(batch[0]) for batch in other] == [0, 1, 2, 3]
loader.set_epoch(7)  # what was prepared is not wanted
batches = iter(loader)
assert int(next(batches)[0]) == 0
if (child := os.fork()) == 0:
    try:
        next(batches)
    except DataError as error:
        print("in the fork:", error, flush=True)
    del batches, loader, other
    gc.collect()
    os._exit(0)
os.waitpid(child, 0)
assert [int(batch[0]) for batch in batches] == [1, 2, 3]  # the fork has ended nothing
"""


@pytest.mark.long
def test_the_first_batch_of_the_next_epoch_is_there_before_it_is_asked_for(
    make_hosts: MakeHosts, tmp_path: Path
) -> None:
    """It comes while no dataset can load anything."""
    hosts = make_hosts(
        {"pipeline.py": GATED, "train.py": FIRST_BATCH},
        data=1,
        environment={"FOLDER": str(tmp_path)},
    )
    output = finish(hosts)
    assert "first batch: [0]" in output
    assert "in the fork: this loader of train was made in the process" in output
    (served,) = hosts["algo-2"].events("batches_served")
    assert served["received"] == {"0": 4 + 1 + 4 + 4}  # none that was prepared in vain


def test_nothing_is_prepared_beyond_the_last_epoch(make_hosts: MakeHosts, tmp_path: Path) -> None:
    script = """
from launcher.data import DataLoader, LoaderOptions
loader = DataLoader("pipeline:train_set", epochs=2, options=LoaderOptions(verify=0))
for epoch in range(2):
    print([int(batch[0]) for batch in loader])
"""
    hosts = make_hosts(
        {"pipeline.py": GATED, "train.py": script}, data=1, environment={"FOLDER": str(tmp_path)}
    )
    finish(hosts)
    assert len((tmp_path / "loads").read_text().split()) == 8


LARGE = map_style("np.full(300_000, index, np.int64)", length=100)
#: Forks look at their batch when the parent has read all others.
FORKING = """
import os
from launcher.data import DataLoader

children, (reads, writes) = [], os.pipe()
for number, batch in enumerate(DataLoader("pipeline:train_set", epochs=1)):
    if number % 30 == 0:
        child = os.fork()
        if child == 0:
            os.close(writes)
            os.read(reads, 1)  # until the parent has closed its end
            os._exit(0 if (batch == number).all() else 1)
        children.append(child)
os.close(writes)
print("forks ended with", [os.waitpid(child, 0)[1] for child in children], flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("data", [0, 1])
def test_a_fork_keeps_the_batch_that_it_was_given(make_hosts: MakeHosts, data: int) -> None:
    files = {"pipeline.py": LARGE, "train.py": FORKING}
    output = finish(make_hosts(files, data=data, prefetch_bytes=8 << 20))
    assert "forks ended with [0, 0, 0, 0]" in output


#: The dataset's samples are views of what it keeps.
KEPT = """
import numpy as np

class Views:
    def __init__(self):
        self.data = np.arange(12, dtype=np.float32).reshape(3, 4)
    def __len__(self):
        return 3
    def __getitem__(self, index):
        return self.data[index]

class Stream:
    def __init__(self):
        self.views = Views()
    def __iter__(self):
        return iter(self.views.data)

views, stream = Views(), Stream()

def train_set():
    return views

def stream_set():
    return stream

def first(samples):
    return samples[0]
"""
CHANGING = """
from launcher.data import DataLoader

for name, settings in (
    ("one by one", {"batch_size": None}),
    ("collated", {"collate_fn": "pipeline:first"}),
    ("stream", {"batch_size": None}),
):
    dataset = "pipeline:stream_set" if name == "stream" else "pipeline:train_set"
    loader = DataLoader(dataset, name=name, epochs=2, **settings)
    sums = []
    for epoch in range(2):
        for batch in loader:
            sums.append(float(batch.sum()))
            batch *= 0
    print(name, sums, flush=True)
"""


@pytest.mark.long
@pytest.mark.parametrize("data", [0, 1])
def test_a_script_that_changes_its_batches_changes_no_sample(
    make_hosts: MakeHosts, data: int
) -> None:
    files = {"pipeline.py": KEPT, "train.py": CHANGING}
    datasets = ("pipeline:train_set", "pipeline:stream_set")
    output = finish(make_hosts(files, data=data, datasets=datasets))
    for name in ("one by one", "collated", "stream"):
        assert f"{name} [6.0, 22.0, 38.0, 6.0, 22.0, 38.0]" in output


#: Sample 0 is not ready before three others have reached the script.
STRAGGLER = GATED.replace(
    'while (FOLDER / "gate").exists():',
    "deadline = time.monotonic() + 500\n"
    '        while index == 0 and not (FOLDER / "three").exists():\n'
    '            assert time.monotonic() < deadline, "held up by sample 0"',
).replace("range(4)", "range(24)")

ANY_ORDER = """
import json, os, pathlib
from launcher.data import DataLoader
FOLDER = pathlib.Path(os.environ["FOLDER"])

loader = DataLoader("pipeline:train_set", in_order=False, epochs=1)
came = []
for batch in loader:
    came.append(int(batch[0]))
    if len(came) == 3:
        state = loader.state_dict()
        (FOLDER / "three").touch()
print("came:", json.dumps(came))
again = DataLoader("pipeline:train_set", in_order=False, epochs=1)
again.load_state_dict(json.loads(json.dumps(state)))
print("left:", json.dumps([int(batch[0]) for batch in again]))
"""


@pytest.mark.long
def test_a_slow_sample_holds_up_none_but_its_own_batch(
    make_hosts: MakeHosts, tmp_path: Path
) -> None:
    hosts = make_hosts(
        {"pipeline.py": STRAGGLER, "train.py": ANY_ORDER},
        data=1,
        workers_per_host=3,
        environment={"FOLDER": str(tmp_path)},
    )
    output = finish(hosts)
    came, left = (
        json.loads(re.search(rf"^{word}: (.*)$", output, re.MULTILINE)[1])  # type: ignore[index]
        for word in ("came", "left")
    )
    assert 0 not in came[:3]
    assert sorted(came) == list(range(24))
    assert sorted(left) == sorted(came[3:])


RESUME = """
import json, os, pathlib
from launcher.data import DataLoader
folder, rank = pathlib.Path(os.environ["FOLDER"]), os.environ["RANK"]
loader = DataLoader("pipeline:train_set", batch_size=4, shuffle=True, in_order=False)
loader.load_state_dict([json.loads(path.read_text()) for path in folder.glob("before-*")])
for step, batch in enumerate(loader, 1):
    print("ids=" + ",".join(map(str, batch["label"])), flush=True)
    if step == int(os.environ["STOP"]):
        break
(folder / f"after-{rank}").write_text(json.dumps(loader.state_dict()))
"""


@pytest.mark.slow
def test_reading_in_any_order_resumes_with_other_ranks_from_all_states(
    make_hosts: MakeHosts, tmp_path: Path
) -> None:
    seen: Counter[int] = Counter()
    script = RESUME.replace("loader.load", "if list(folder.glob('before-*')): loader.load")
    for train, stop in ((3, 3), (1, 5), (2, 99)):
        hosts = make_hosts(
            {"pipeline.py": PIPELINE, "train.py": script},
            data=1,
            train=train,
            workers_per_host=2,
            environment={"FOLDER": str(tmp_path), "STOP": str(stop)},
        )
        for line in re.findall(r"^ids=(.*)$", finish(hosts), re.MULTILINE):
            seen.update(map(int, line.split(",")))
        for old in tmp_path.glob("before-*"):
            old.unlink()
        for new in tmp_path.glob("after-*"):
            new.rename(new.with_name(new.name.replace("after", "before")))
    assert set(seen) == set(range(103))
    assert seen.total() == 103 + 1  # 47 samples were left for two ranks: one pad


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "argument", "words"),
    [
        pytest.param(
            "    return [(i * os.getpid()) % length for i in range(length)]",
            "sampler",
            ["returned one order of epoch 0 to rank 0", "it must be a pure function"],
            id="a sampler that is not pure",
        ),
        pytest.param(
            "    return length['no such key']",
            "collate_fn",
            ["the collate_fn pipeline:function raised TypeError", "on data host algo-1"],
            id="a collate_fn that raises",
        ),
    ],
)
def test_errors_of_a_function_name_the_host_that_called_it(
    make_hosts: MakeHosts, line: str, argument: str, words: list[str]
) -> None:
    function = f"\nimport os\ndef function(length, epoch=0, seed=0):\n{line}\n"
    script = f"""
from launcher.data import DataLoader
list(DataLoader("pipeline:train_set", batch_size=4, {argument}="pipeline:function"))
"""
    hosts = make_hosts({"pipeline.py": PIPELINE + function, "train.py": script}, data=1)
    hosts.start()
    assert hosts.wait()["algo-2"] == 1, hosts.output()
    assert all(word in (hosts["algo-2"].failure or "") for word in words), hosts.output()


def test_a_data_host_logs_where_a_length_raises(make_hosts: MakeHosts) -> None:
    pipeline = map_style("index", "self.rows  # nobody has set it")
    script = "from launcher.data import DataLoader\nlen(DataLoader('pipeline:train_set'))\n"
    hosts = make_hosts({"pipeline.py": pipeline, "train.py": script}, data=1)
    hosts.start()
    assert hosts.wait()["algo-2"] != 0
    (event,) = hosts["algo-1"].events("dataset_failed")
    assert "pipeline:train_set: its length is not known: AttributeError" in str(event["cause"])
    assert "return self.rows  # nobody has set it" in hosts["algo-1"].output
