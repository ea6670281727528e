"""The file of a partition: written and read again, and refused where it is not one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cut_model import PARTITION, partition
from waiting import wait_until

from launcher.errors import ParallelError
from launcher.shared import PartitionFile


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    PARTITION.write(tmp_path / "cuts.json")
    assert PartitionFile.read(tmp_path / "cuts.json") == PARTITION
    again = PartitionFile.read(tmp_path / "cuts.json").to_json()
    assert again == (tmp_path / "cuts.json").read_text()
    assert partition(memory_cap=2**40) == PartitionFile.from_json(
        partition(memory_cap=2**40).to_json()
    )


def test_the_files_of_other_tests_are_of_this_version() -> None:
    kept = Path(__file__).parents[1] / "spec" / "bad" / "partition.json"
    assert PartitionFile.read(kept) == PARTITION, "write it anew: PARTITION.write(...)"


def _changed(place: tuple[Any, ...], value: Any) -> str:
    raw = part = json.loads(PARTITION.to_json())
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        (("partitions",), "2", "partitions is '2'"),
        (("partitions",), True, "partitions is True"),
        (("partitions",), 2.0, "partitions is 2.0"),
        (("step",), None, "step is None"),
        (("starts",), "2", "starts is '2'"),
        (("starts", 0), 2, r"starts\[0\] is 2"),
        (("recomputed",), 3, "recomputed is 3"),
        (("modules", 2, "forward"), "long", r"modules\[2\].forward is 'long'"),
        (("modules", 1, "crossing"), 1.5, r"modules\[1\].crossing is 1.5"),
        (("fingerprint", "parameters", "0.weight"), 1, r"parameters\['0.weight'\] is 1"),
        (("modules", 0), 7, "must be a mapping, not int"),
        (("fingerprint",), 7, "not subscriptable"),
        (("link", "colour"), "red", "'colour'"),
        (("step",), 10**40, "step is 1000"),
        (("modules", 2, "forward"), 10**40, r"modules\[2\].forward is 1000"),
        (("modules", 2, "parameters"), 10**40, r"modules\[2\].parameters is 1000"),
        (("version",), 2, "it is of version 2, and this Launcher reads version 1"),
    ],
    ids=str,
)
def test_what_is_not_as_it_was_written_is_named(
    place: tuple[Any, ...], value: Any, what: str
) -> None:
    with pytest.raises(ParallelError, match=what):
        PartitionFile.from_json(_changed(place, value))


def test_whole_numbers_are_seconds_too() -> None:
    read = PartitionFile.from_json(_changed(("modules", 2, "spread"), 2))
    assert read.modules[2].spread == 2


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParallelError, match=r"cuts\.json cannot be read: No such file"):
        PartitionFile.read(tmp_path / "cuts.json")
    (tmp_path / "cuts.json").write_bytes(b"\xff")
    with pytest.raises(ParallelError, match=r"cuts\.json is not a text file: .* byte 0xff"):
        PartitionFile.read(tmp_path / "cuts.json")
    (tmp_path / "cuts.json").write_text("[" + "1, " * (3 << 20))
    with pytest.raises(ParallelError, match=r"cuts\.json: more than 8 MiB, which no partition"):
        PartitionFile.read(tmp_path / "cuts.json")
    (tmp_path / "cuts.json").write_text("[]")
    with pytest.raises(
        ParallelError, match=r"cuts\.json: this is not a file of `launcher plan cut`"
    ):
        PartitionFile.read(tmp_path / "cuts.json")


@pytest.mark.parametrize(
    "starts", [("0",), ("head",), ("2", "1"), ("1", "1")], ids=["first", "none", "order", "twice"]
)
def test_starts_are_modules_in_their_order(starts: tuple[str, ...]) -> None:
    text = partition(starts=starts).to_json()
    with pytest.raises(ParallelError, match=r"no stage can start at .* make it again"):
        PartitionFile.from_json(text)


def test_a_start_is_the_name_of_one_module() -> None:
    with pytest.raises(ParallelError, match="2 modules are called '2'; make it again"):
        PartitionFile.from_json(_changed(("modules", 0, "name"), "2"))


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        (("partitions",), 0, "partitions is 0, and at least 1 is needed"),
        (("microbatches",), 10**9, "microbatches is 1000000000, and 10,000 are the most"),
        (("replicas",), 0, "replicas is 0"),
        (("objective",), "sped", "objective is 'sped', and not one of speed, memory"),
        (("precision",), "fp8", "precision is 'fp8'"),
        (("partitions",), 1, "there are 1 starts, and 1 stages need 0"),
        (("starts",), [], "there are 0 starts, and 2 stages need 1"),
        (("microbatches",), 1, "needs a microbatch for each of 2 ranks"),
        (("link", "bandwidth"), 0, "link.bandwidth is 0, and no limit is null"),
        (("joints", 0, "second"), 3, r"joints\[0\] is of modules 0 and 3 of 3"),
        (("ties",), [{"modules": [1, 1], "gradients": 4}], r"ties\[0\].modules is \[1, 1\]"),
        (("ties",), [{"modules": [1, 3], "gradients": 4}], r"ties\[0\] is of module 3 of 3"),
        (("ties",), [{"modules": 1, "gradients": 4}], r"ties\[0\].modules is 1"),
        (("stages", 1, "memory"), 1, r"stages\[1\].memory is 1, and \d+ follows from its modules"),
        (("stages", 0, "forward"), 2.0, r"stages\[0\].forward is 2.0, and 0.001 follows"),
        (("modules", 2, "forward"), 2.0, r"stages\[1\].forward is 0.001, and 2.0 follows"),
        (("step",), 2.0, r"step is 2.0, and 0.0093\d* follows from its stages"),
        (("bound",), 0.001, r"gap is 0.0, and 8.3\d* follows from its step and its bound"),
    ],
    ids=str,
)
def test_what_contradicts_the_rest_of_the_file_is_named(
    place: tuple[Any, ...], value: Any, what: str
) -> None:
    with pytest.raises(ParallelError, match=what):
        PartitionFile.from_json(_changed(place, value))


def test_edited_starts_have_predictions_of_their_own_and_no_proof() -> None:
    proven = partition(bound=PARTITION.step)
    assert PartitionFile.from_json(proven.to_json()) == proven
    read = PartitionFile.from_json(partition(bound=PARTITION.step, starts=("1",)).to_json())
    assert [each.start for each in read.stages] == ["0", "1"]
    assert [each.modules for each in read.stages] == [1, 2]
    assert read.step == read.timeline.seconds
    assert read.bound is None


_WRITER = """
import itertools, pathlib, sys
from cut_model import PARTITION
folder = pathlib.Path(sys.argv[1])
print("ready", flush=True)
for number in itertools.count():
    PARTITION.write(folder / f"{number}.json")
"""


@pytest.mark.long
def test_a_killed_writer_leaves_whole_files_only(tmp_path: Path) -> None:
    for kill in range(8):
        folder = tmp_path / str(kill)
        folder.mkdir()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(folder)], stdout=subprocess.PIPE, env=environment
        )
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            wait_until(lambda at=folder / f"{kill * 7}.json": at.exists())
        finally:
            writer.kill()
            writer.communicate()
        for path in folder.iterdir():
            assert path.suffix == ".json", path
            assert PartitionFile.read(path) == PARTITION


def test_a_file_replaces_another_one(tmp_path: Path) -> None:
    (tmp_path / "cuts.json").write_text("an older one")
    PARTITION.write(tmp_path / "cuts.json")
    assert PartitionFile.read(tmp_path / "cuts.json") == PARTITION
    assert [path.name for path in tmp_path.iterdir()] == ["cuts.json"]
