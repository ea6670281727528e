"""What is said of the files of a job that saves elsewhere than in the folders that are kept."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, job_without_programs

from launcher.client.sessions import HostFolder, copy_from_host, unkept_notes

NOTHING = "nothing was kept: write to SM_MODEL_DIR what is to stay"
NO_MODEL = "no model was kept: write to SM_MODEL_DIR what is to stay"
LOST = "new files elsewhere, which are lost on AWS: "
KEPT = {"CheckpointConfig": {"S3Uri": "file:///stored"}}


def save(tree: HostFolder, name: str, size: int = 1) -> Path:
    """Write a file below a host's /opt/ml, or below its HOME or TMP."""
    first, _, rest = name.partition("/")
    places = {"HOME": tree.home, "TMP": tree.scratch}
    path = places[first] / rest if first in places else tree.ml.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def notes(folder: Path, sizes: dict[str, int], **fields: Any) -> list[str]:
    """What is said of a job whose only host has saved files of these sizes."""
    since = time.time() - 5
    job, trees = job_without_programs(folder)
    (tree,) = trees.values()
    for name, size in sizes.items():
        path = save(tree, name, size)
        if path.name == "old":
            os.utime(path, (9, 9))
    has_output = any(name.startswith("output/data") for name in sizes)
    request: Any = {"TrainingJobName": "job", **fields}
    said = unkept_notes(request, trees, has_output=has_output, since=since)
    commands = [each for each in said if each.startswith("launcher download job ")]
    for each in commands:
        source = each.removeprefix("launcher download job ")
        assert copy_from_host(job, "algo-1", source, folder).exists()
    return said


@pytest.mark.parametrize(
    ("saves", "files", "command"),
    [
        ({"code/model.pt": 70}, "/opt/ml/code/model.pt (70 bytes)", "code/model.pt"),
        (
            {"code/runs/1/last.ckpt": 2500, "code/runs/1/args.yaml": 3},
            "/opt/ml/code/runs/1/last.ckpt (2.5 kB), /opt/ml/code/runs/1/args.yaml (3 bytes)",
            "code/runs/1",
        ),
        (
            {"code/lightning_logs/v0/a": 9, "code/wandb/run/b": 8, "code/outputs/c": 7},
            "/opt/ml/code/lightning_logs/v0/a (9 bytes), /opt/ml/code/wandb/run/b (8 bytes), "
            "/opt/ml/code/outputs/c (7 bytes)",
            "code",
        ),
        ({"HOME/best.pt": 5}, "/opt/home/best.pt (5 bytes)", "/opt/home/best.pt"),
        ({"results/r": 5}, "/opt/ml/results/r (5 bytes)", "results/r"),
        ({"checkpoints/r": 5}, "/opt/ml/checkpoints/r (5 bytes)", "checkpoints/r"),
        ({"TMP/best.pt": 5}, "/tmp/best.pt (5 bytes)", None),
    ],
    ids=["cwd", "runs", "trackers", "home", "beside", "checkpoints", "tmp"],
)
def test_new_files_are_named_with_the_command_that_copies_them(
    tmp_path: Path, saves: dict[str, int], files: str, command: str | None
) -> None:
    gone = "files in /tmp are gone with their host"
    how = f"launcher download job {command}" if command else gone
    assert notes(tmp_path, saves) == [NOTHING, f"{LOST}{files}", how]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([], id="nothing"),
        pytest.param(["code/__pycache__/a.pyc", "code/.cache/a", "code/x.egg-info/a"], id="py"),
        pytest.param(["HOME/.cache/torch/hub/a", "HOME/.netrc"], id="of home"),
        pytest.param(["TMP/tmpab12_xyz/a", "TMP/torchelastic_x/b"], id="of tmp"),
        pytest.param(["code/old"], id="unpacked"),
        pytest.param(["output/failure"], id="failure file"),
    ],
)
def test_there_is_nothing_to_name(tmp_path: Path, names: list[str]) -> None:
    assert notes(tmp_path, dict.fromkeys(names, 1) | {"code/empty": 0}) == []


def test_the_largest_files_come_first_and_the_others_are_counted(tmp_path: Path) -> None:
    parts = {f"code/part-{size}": size for size in range(1, 9)}
    named = ", ".join(f"/opt/ml/code/part-{size} ({size} bytes)" for size in (8, 7, 6, 5, 4))
    assert notes(tmp_path, {"output/data/metrics": 1, **parts}) == [
        NO_MODEL,
        f"{LOST}{named} and 3 more",
        "launcher download job code",
    ]


def test_checkpoints_are_kept(tmp_path: Path) -> None:
    assert notes(tmp_path, {"checkpoints/1": 1, "code/log": 1}, **KEPT) == [
        NO_MODEL,
        f"{LOST}/opt/ml/code/log (1 bytes)",
        "launcher download job code/log",
    ]


def test_files_of_several_hosts_are_named_where_there_is_no_model(default_bench: Bench) -> None:
    script = """
    def save(name, size):
        path = ml / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    save("code/runs/same", 7)
    if host == "algo-2":
        save("code/runs/own", 9)
    """
    description = default_bench.run(script, hosts=2)
    assert description["TrainingJobStatus"] == "Completed"
    assert description["LocalLosses"] == [
        NOTHING,
        f"{LOST}/opt/ml/code/runs/own (9 bytes) on algo-2, "
        "/opt/ml/code/runs/same (7 bytes) on 2 hosts",
        "launcher download job code/runs --host algo-2",
        "launcher download job code/runs/same --host algo-1",
    ]
