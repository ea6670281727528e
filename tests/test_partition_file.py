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
from launcher.shared.partitions import PartitionFile


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    PARTITION.write(tmp_path / "cuts.json")
    assert PartitionFile.read(tmp_path / "cuts.json") == PARTITION
    again = PartitionFile.read(tmp_path / "cuts.json").to_json()
    assert again == (tmp_path / "cuts.json").read_text()
    assert partition(memory_cap=2**40) == PartitionFile.from_json(
        partition(memory_cap=2**40).to_json()
    )


def test_the_files_of_other_tests_are_of_this_version() -> None:
    kept = Path(__file__).parent / "spec" / "bad" / "partition.json"
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
    assert PartitionFile.from_json(_changed(("step",), 2)).step == 2


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ParallelError, match=r"cuts\.json cannot be read: No such file"):
        PartitionFile.read(tmp_path / "cuts.json")
    (tmp_path / "cuts.json").write_bytes(b"\xff")
    with pytest.raises(ParallelError, match=r"cuts\.json is not a text file: .* byte 0xff"):
        PartitionFile.read(tmp_path / "cuts.json")
    (tmp_path / "cuts.json").write_text("[]")
    with pytest.raises(
        ParallelError, match=r"cuts\.json: this is not a file of `launcher partition`"
    ):
        PartitionFile.read(tmp_path / "cuts.json")


@pytest.mark.parametrize(
    "starts", [("0",), ("head",), ("2", "1"), ("1", "1")], ids=["first", "none", "order", "twice"]
)
def test_starts_are_modules_in_their_order(starts: tuple[str, ...]) -> None:
    text = partition(starts=starts).to_json()
    with pytest.raises(ParallelError, match=r"no stage can start at .* make it again"):
        PartitionFile.from_json(text)


_WRITER = """
import itertools, pathlib, sys
from cut_model import PARTITION
folder = pathlib.Path(sys.argv[1])
print("ready", flush=True)
for number in itertools.count():
    PARTITION.write(folder / f"{number}.json")
"""


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
