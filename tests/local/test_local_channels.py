"""Which files of this machine each host gets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, channel, group

from launcher.client.sessions import has_objects, objects

#: Prints every file of every channel but `code`, with its content.
LIST = """
found = {}
for folder in sorted((ml / "input/data").iterdir()):
    if folder.name != "code":
        files = [p for p in folder.rglob("*") if p.is_file()]
        found[folder.name] = {str(p.relative_to(folder)): p.read_text() for p in sorted(files)}
print(json.dumps([found, sorted(set(config["inputdataconfig"]) - {"code"})]))
"""


@pytest.fixture
def data(bench: Bench) -> Path:
    """Ten files, two of them in a folder, and a neighbour of the folder."""
    folder = bench.folder / "some data"
    for name in (*"abcdefgh", "deep/i", "deep/j", "deeper/k"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name.upper())
    return folder


def contents(bench: Bench) -> dict[str, Any]:
    """The channels of each host: {host: {channel: {name: content}}}."""
    bench.end_of()
    found = {}
    for host, lines in bench.lines().items():
        channels, listed = json.loads(lines[-1])
        assert listed == sorted(channels), "inputdataconfig.json names what is there"
        found[host] = channels
    return found


def expected(*names: str) -> dict[str, str]:
    return {name: name[-1].upper() for name in names}


def sharded(name: str, uri: str, **source: Any) -> dict[str, Any]:
    return channel(name, uri, S3DataDistributionType="ShardedByS3Key", **source)


def for_all(channel: dict[str, Any]) -> dict[str, Any]:
    """The channel for both groups: if one names its groups, all do."""
    channel["DataSource"]["S3DataSource"]["InstanceGroupNames"] = ["train", "data"]
    return channel


def test_channels_of_two_groups(bench: Bench, data: Path) -> None:
    whole = {
        "folder": ("", (*"abcdefgh", "deep/i", "deep/j", "deeper/k")),
        "folder-with-slash": ("/deep/", ("i", "j")),
        "file": ("/a", ("a",)),
        "prefix-of-a-folder": ("/deepe", ("deeper/k",)),
        "file-in-a-folder": ("/deep/i", ("i",)),
    }
    bench.start(
        LIST,
        groups=[group("data", 2), group("train", 1)],
        channels=[
            *(
                for_all(channel(name, f"file://{data}{suffix}"))
                for name, (suffix, _) in whole.items()
            ),
            for_all(channel("percent-encoded", data.as_uri() + "/deep")),
            for_all(channel("fast", f"file://{data}/deep")) | {"InputMode": "FastFile"},
            for_all(sharded("dealt-out", f"file://{data}")),
            for_all(sharded("few", f"file://{data}/deep")),
            sharded("of-data", f"file://{data}/deep", InstanceGroupNames=["data"]),
            channel("of-train", f"file://{data}/a", InstanceGroupNames=["train"]),
        ],
    )

    every = {name: dict(sorted(expected(*files).items())) for name, (_, files) in whole.items()}
    every |= {"percent-encoded": expected("i", "j"), "fast": expected("i", "j")}
    assert contents(bench) == {
        "algo-1": every
        | {"dealt-out": expected("a", "d", "deeper/k", "g"), "few": expected("i")}
        | {"of-data": expected("i")},
        "algo-2": every
        | {"dealt-out": expected("b", "deep/i", "e", "h"), "few": expected("j")}
        | {"of-data": expected("j")},
        "algo-3": every
        | {"dealt-out": expected("c", "deep/j", "f"), "few": {}}
        | {"of-train": expected("a")},
    }
    shutil.rmtree(bench.job_folder())
    assert (data / "deep" / "i").read_text() == "I", "the user's data outlives the job"


def test_names_in_another_encoding_are_dealt_out_by_their_bytes(tmp_path: Path) -> None:
    names = ["caf\udce9", "café", "cafz", "😀", "a"]
    for name in names:
        (tmp_path / name).touch()
    assert list(objects(tmp_path)) == ["a", "cafz", "café", "caf\udce9", "😀"]


def test_a_linked_folder_is_part_of_a_channel(tmp_path: Path) -> None:
    disk, data = tmp_path / "disk", tmp_path / "data"
    (disk / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (disk / name).write_text(name)
    data.mkdir()
    (data / "train").symlink_to(disk)
    assert has_objects(data)
    assert list(objects(data)) == ["train/a", "train/deep/b"]
    assert list(objects(data / "tr")) == ["train/a", "train/deep/b"]


def test_links_in_a_circle_and_to_nowhere_add_no_files(tmp_path: Path) -> None:
    for name, target in (("up", "."), ("self", "self"), ("gone", "nothing")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "two").symlink_to(tmp_path)
    assert not has_objects(tmp_path)
    (tmp_path / "a").write_text("a")
    assert list(objects(tmp_path)) == ["a"]
