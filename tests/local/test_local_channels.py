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


@pytest.mark.long
@pytest.mark.parametrize(
    ("suffix", "files"),
    [
        pytest.param("", (*"abcdefgh", "deep/i", "deep/j", "deeper/k"), id="folder"),
        pytest.param("/deep/", ("i", "j"), id="folder with slash"),
        pytest.param("/a", ("a",), id="file"),
        pytest.param("/deepe", ("deeper/k",), id="prefix of a folder"),
        pytest.param("/deep/i", ("i",), id="file in a folder"),
    ],
)
def test_a_replicated_channel(bench: Bench, data: Path, suffix: str, files: Any) -> None:
    bench.start(LIST, hosts=2, channels=[channel("digits", f"file://{data}{suffix}")])

    assert contents(bench) == {
        "algo-1": {"digits": dict(sorted(expected(*files).items()))},
        "algo-2": {"digits": dict(sorted(expected(*files).items()))},
    }


def test_a_uri_may_be_percent_encoded(bench: Bench, data: Path) -> None:
    bench.start(LIST, channels=[channel("digits", data.as_uri() + "/deep")])
    assert contents(bench) == {"algo-1": {"digits": expected("i", "j")}}


def test_a_sharded_channel_is_dealt_out_in_the_order_of_its_keys(bench: Bench, data: Path) -> None:
    sharded = channel("digits", f"file://{data}", S3DataDistributionType="ShardedByS3Key")
    bench.start(LIST, hosts=3, channels=[sharded])

    assert contents(bench) == {
        "algo-1": {"digits": expected("a", "d", "deeper/k", "g")},
        "algo-2": {"digits": expected("b", "deep/i", "e", "h")},
        "algo-3": {"digits": expected("c", "deep/j", "f")},
    }


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


def test_a_host_sees_the_channels_of_its_group_only(bench: Bench, data: Path) -> None:
    bench.start(
        LIST,
        groups=[group("data", 2), group("train", 1)],
        channels=[
            channel(
                "raw",
                f"file://{data}/deep",
                S3DataDistributionType="ShardedByS3Key",
                InstanceGroupNames=["data"],
            ),
            channel("labels", f"file://{data}/a", InstanceGroupNames=["train"]),
            channel("both", f"file://{data}/b", InstanceGroupNames=["train", "data"]),
        ],
    )

    assert contents(bench) == {
        "algo-1": {"raw": expected("i"), "both": expected("b")},
        "algo-2": {"raw": expected("j"), "both": expected("b")},
        "algo-3": {"labels": expected("a"), "both": expected("b")},
    }


def test_more_hosts_than_objects(bench: Bench, data: Path) -> None:
    sharded = channel("digits", f"file://{data}/deep", S3DataDistributionType="ShardedByS3Key")
    bench.start(LIST, hosts=3, channels=[sharded])

    assert contents(bench)["algo-3"] == {"digits": {}}


def test_fast_file_looks_the_same(bench: Bench, data: Path) -> None:
    fast = channel("digits", f"file://{data}/deep") | {"InputMode": "FastFile"}
    bench.start(LIST, channels=[fast])
    assert contents(bench) == {"algo-1": {"digits": expected("i", "j")}}


@pytest.mark.long
@pytest.mark.parametrize("distribution", ["FullyReplicated", "ShardedByS3Key"])
def test_the_users_data_outlives_the_job(bench: Bench, data: Path, distribution: str) -> None:
    source = channel("digits", f"file://{data}", S3DataDistributionType=distribution)
    bench.start(LIST, channels=[source])
    bench.end_of()
    shutil.rmtree(bench.job_folder())

    assert (data / "deep" / "i").read_text() == "I"
