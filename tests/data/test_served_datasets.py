"""Datasets as the script gives them, served by data hosts: the same batches, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hosts import Hosts
from made_hosts import MakeHosts

from launcher.data.order import ServedCodeCheck, StreamSpec
from launcher.errors import DataError
from launcher.shared import Launch, has_main_guard

PIPELINE = """
import numpy as np
from os import getcwd

class Digits:
    shift = 0

    def __init__(self, size, root=None):
        self.size, self.root = size, root

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return {"x": self.shift + index + np.random.rand(), "root": self.root is not None}

class Stream:
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        return iter(range(self.size))

def train_set(size):
    return Digits(size)

def shift(number):
    Digits.shift = 100 + number

def doubled(samples):
    return [2 * sample["x"] for sample in samples]
"""

#: A training script that defines a dataset of its own.
SCRIPT = """
import pipeline
from launcher.data import DataLoader, channel

class Own(pipeline.Digits):
    pass

def shown(samples):
    return [sample["x"] for sample in samples]

def read(dataset, **options):
    loader = DataLoader(dataset, batch_size=2, tensors=False, **options)
    print("read", loader.state_dict()["dataset"], [repr(batch) for batch in loader], flush=True)

if __name__ == "__main__":
    read("pipeline:train_set", dataset_args={"size": 3})
    read(pipeline.train_set, dataset_args={"size": 5})
    read(pipeline.Digits, dataset_args={"size": 2, "root": channel("code")})
    read(pipeline.Digits, dataset_args={"size": 4}, collate_fn=pipeline.doubled)
    read(Own, dataset_args={"size": 3}, collate_fn=shown, num_workers=2)
    read(pipeline.Stream, dataset_args={"size": 5})
    read(pipeline.Digits, dataset_args={"size": 2}, worker_init_fn=pipeline.shift)
"""


def run(hosts: Hosts) -> Hosts:
    hosts.start()
    hosts.wait()
    return hosts


@pytest.mark.long
def test_what_the_script_asks_for_is_served_with_the_same_batches(make_hosts: MakeHosts) -> None:
    files = {"pipeline.py": PIPELINE, "train.py": SCRIPT}
    seen = []
    for data in (0, 1):
        hosts = run(make_hosts(files, data=data, datasets=()))
        lines = re.findall(r"^read .*$", hosts.output(), re.MULTILINE)
        assert len(lines) == 7, hosts.output()
        seen.append(lines)
    assert seen[0] == seen[1]
    assert "read pipeline:Digits(root=channel('code'), size=2)" in seen[0][2]
    assert "read train:Own(size=3)" in seen[0][4]
    assert "array([10" in seen[0][6]


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(
            'DataLoader("os:getcwd")',
            "its code has no module 'os', and data hosts import no other",
            id="a module that is not the job's",
        ),
        pytest.param(
            "DataLoader(Own(3))",
            "the Own given exists only in the script's process: make it in a function of a module "
            "beside the script",
            id="an instance",
        ),
        pytest.param(
            "DataLoader(Own)",
            "is in the training script train.py, which has no main guard",
            id="a class of a script without a main guard",
        ),
    ],
)
def test_what_is_not_served_fails_the_job_with_the_reason(
    make_hosts: MakeHosts, line: str, message: str
) -> None:
    script = f"""
from launcher.data import DataLoader

class Own:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    __getitem__ = None

for batch in {line}:
    pass
"""
    hosts = run(make_hosts({"train.py": script}, data=1, datasets=()))
    assert hosts["algo-2"].wait() == 1, hosts.output()
    assert message in (hosts["algo-2"].failure or ""), hosts.output()


@pytest.mark.long
def test_a_loader_waits_no_longer_than_its_timeout(make_hosts: MakeHosts, tmp_path: Path) -> None:
    pipeline = f"""
import os, time
class Slow(list):
    def __getitem__(self, index):
        while os.path.exists({str(tmp_path)!r}):
            time.sleep(0.05)

def train_set():
    return Slow([1, 2])
"""
    script = (
        "from launcher.data import DataLoader\nlist(DataLoader('pipeline:train_set', timeout=1))"
    )
    hosts = run(make_hosts({"pipeline.py": pipeline, "train.py": script}, data=1))
    assert hosts["algo-2"].wait() == 1, hosts.output()
    assert "did not arrive within the loader's timeout=1 s" in (hosts["algo-2"].failure or "")


# The rule, without a job -----------------------------------------------------------------------


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / f"served_{abs(hash(str(tmp_path)))}.py").write_text(PIPELINE)
    (tmp_path / "json.py").write_text("def loads(): return []\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def check(code: Path, dataset: str, datasets: tuple[str, ...] = (), **options: str) -> None:
    module = next(code.glob("served_*")).stem
    spec = StreamSpec(
        name="s",
        dataset=dataset.format(m=module),
        **{name: value.format(m=module) for name, value in options.items()},  # type: ignore[arg-type]
    )
    listed = tuple(each.format(m=module) for each in datasets)
    ServedCodeCheck(listed, code=code, entry_point="train.py").check(spec)


@pytest.mark.parametrize(
    ("dataset", "datasets", "options"),
    [
        ("{m}:train_set(size=3)", (), {}),
        ("{m}:train_set(size=3)", ("{m}:train_set",), {}),
        ("{m}:Digits", (), {"collate_fn": "{m}:doubled"}),
        ("builtins:list", ("builtins:list",), {}),
    ],
)
def test_code_of_the_job_is_served(
    code: Path, dataset: str, datasets: tuple[str, ...], options: dict[str, str]
) -> None:
    check(code, dataset, datasets, **options)


@pytest.mark.parametrize(
    ("dataset", "datasets", "options", "message"),
    [
        ("{m}:Digits", ("{m}:train_set",), {}, "add '.*:Digits' to data_service.datasets"),
        ("builtins:list", (), {}, "its code has no module 'builtins'"),
        ("..secret:f", (), {}, "its code has no module"),
        ("json:loads", (), {}, "the module only imports it"),  # the standard library's
        ("{m}:getcwd", (), {}, "the module only imports it"),
        ("{m}:np.zeros", (), {}, "'np' is a module"),
        ("{m}:Digits", (), {"collate_fn": "os:system"}, "its code has no module 'os'"),
        (
            "{m}:Digits",
            ("{m}:Digits",),
            {"collate_fn": "os:system"},
            "is not in the dataset's module .*, and this job lists what it serves",
        ),
    ],
)
def test_other_code_is_not_served(
    code: Path, dataset: str, datasets: tuple[str, ...], options: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        check(code, dataset, datasets, **options)


@pytest.mark.parametrize(
    ("source", "has_one"),
    [
        ('if __name__ == "__main__":\n    main()\n', True),
        ("if '__main__' == __name__: main()", True),
        ("main()", False),
        ("def main():\n    if __name__ == '__main__': pass\n", False),
        ("if name == '__main__': main()", False),
    ],
)
def test_a_main_guard_is_recognised(source: str, has_one: bool) -> None:
    assert has_main_guard(source) is has_one


# Empty datasets --------------------------------------------------------------------------------

EMPTY = """
class Nothing(list):
    pass

class Stream:
    def __iter__(self):
        return iter(())
"""
READS_EMPTY = """
import os
from launcher.data import DataLoader, LoaderOptions
ranks = int(os.environ["WORLD_SIZE"])
of_stream = {"shards": ranks, "options": LoaderOptions(steps=2)}
options = of_stream if DATASET == "Stream" else {}
list(DataLoader(f"pipeline:{DATASET}", **options))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("dataset", "data", "ranks", "message"),
    [
        ("Nothing", 0, 1, "the dataset pipeline:Nothing is empty: its length is 0, so rank 0"),
        ("Nothing", 1, 2, "the dataset pipeline:Nothing is empty: its length is 0, so rank"),
        ("Stream", 1, 1, "the shards [0] of pipeline:Stream have no batch, so rank 0 has none"),
        ("Stream", 0, 2, "of pipeline:Stream have no batch, so rank"),
    ],
)
def test_a_job_with_an_empty_dataset_fails_and_names_it(
    make_hosts: MakeHosts, dataset: str, data: int, ranks: int, message: str
) -> None:
    hosts = make_hosts(
        {"pipeline.py": EMPTY, "train.py": f"DATASET = {dataset!r}\n{READS_EMPTY}"},
        data=data,
        datasets=(),
        launch=Launch.PYTHON if ranks == 1 else Launch.TORCHRUN,
        processes_per_host=ranks,
    )
    trainer = f"algo-{data + 1}"
    assert run(hosts)[trainer].wait() == 1, hosts.output()
    failure = hosts[trainer].failure or ""
    assert message in failure, hosts.output()
    assert f"host {trainer} (train_group), rank " in failure


BESIDE = """
from launcher.data import DataLoader
from pipeline import Digits, train_set

class Own(Digits):
    pass

if __name__ == "__main__":
    for dataset in (Own, train_set):
        print("read", len(list(DataLoader(dataset, dataset_args={"size": 3}))), flush=True)
"""


@pytest.mark.long
def test_modules_beside_a_script_in_a_folder_are_served(make_hosts: MakeHosts) -> None:
    files = {"src/pipeline.py": PIPELINE, "src/train.py": BESIDE}
    hosts = run(make_hosts(files, data=1, datasets=(), entry_point="src/train.py"))
    assert re.findall(r"^read .*$", hosts.output(), re.MULTILINE) == ["read 3"] * 2, hosts.output()


#: Makes its loader once a data host has imported the module: no rank has asked for it until then.
WAITING = """
import time
from pathlib import Path
from launcher.data import DataLoader

deadline = time.monotonic() + 60
while not Path({mark!r}).exists():
    assert time.monotonic() < deadline, "it was not imported"
    time.sleep(0.02)
print("read", len(list(DataLoader("pipeline:numbers"))), flush=True)
"""


@pytest.mark.long
def test_listed_modules_are_imported_before_a_rank_asks(
    make_hosts: MakeHosts, tmp_path: Path
) -> None:
    mark = str(tmp_path / "imported")
    files = {
        "pipeline.py": f"open({mark!r}, 'w').close()\ndef numbers():\n    return range(3)\n",
        "broken.py": "raise OSError('no such disk')\n",
        "train.py": WAITING.format(mark=mark),
    }
    hosts = run(make_hosts(files, data=1, datasets=("broken:numbers", "pipeline:numbers")))
    assert "read 3" in hosts.output()
    assert "no such disk" not in hosts.output()
