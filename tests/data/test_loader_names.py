"""Every public name of torch's DataLoader: it works here as there, or is refused by its name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from made_hosts import MakeHosts

from launcher.data import DataLoader

torch = pytest.importorskip("torch")
torch_data = pytest.importorskip("torch.utils.data")


PIPELINE = """
OFFSET = 0

class Numbers:
    def __len__(self):
        return 7

    def __getitem__(self, index):
        return OFFSET + index

def numbers():
    return Numbers()

def tenfold(samples):
    return [10 * sample for sample in samples]

def set_offset(worker):
    global OFFSET
    OFFSET = 100
"""
WALK = Path(__file__).with_name("loader_walk.py")
#: Names that are refused, also when they are assigned before the first epoch.
FIXED = {
    *("batch_sampler", "batch_size", "dataset", "drop_last", "persistent_workers", "sampler"),
    *("shuffle", "multiprocessing_context"),
}


def expected(walk: Any) -> dict[tuple[str, str], str]:
    """What must come of each name: as in torch, but for what is refused."""
    found = {
        (name, way): "as in torch"
        for name in walk.public_names()
        for way in (walk.READ, walk.BEFORE, walk.BETWEEN)
    }
    found |= {(name, way): "refused" for name in FIXED for way in (walk.BEFORE, walk.BETWEEN)}
    found["shuffle", walk.READ] = "refused"  # torch has no such attribute either
    found["pin_memory", walk.BETWEEN] = "refused"  # the memory has been allocated
    found["check_worker_number_rationality", walk.READ] = "refused"
    return found


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    for name in ("pipeline", "loader_walk"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.import_module("loader_walk")


@pytest.mark.parametrize("dataset", ["pipeline:numbers", "an object"])
def test_a_name_works_as_in_torch_or_is_refused(walk: ModuleType, dataset: str) -> None:
    pipeline = sys.modules["pipeline"]

    def make(**options: Any) -> DataLoader:
        pipeline.OFFSET = 0  # type: ignore[attr-defined] # of the pipeline above
        given = pipeline.numbers() if dataset == "an object" else dataset
        options.setdefault("name", f"walk {next(count)}")
        return DataLoader(given, batch_size=2, **options)

    count = iter(range(1000))
    assert walk.walk(make) == expected(walk)


@pytest.mark.long
def test_a_name_works_as_in_torch_or_is_refused_in_a_job(
    make_hosts: MakeHosts, walk: ModuleType
) -> None:
    files = {"pipeline.py": PIPELINE, "train.py": WALK.read_text()}
    hosts = make_hosts(files, data=1, datasets=("pipeline:numbers",))
    hosts.run()
    printed = [line for line in hosts.output().splitlines() if line.startswith("walk; ")]
    found = {(name, way): what for _, name, way, what in (line.split("; ", 3) for line in printed)}
    assert found == expected(walk)
