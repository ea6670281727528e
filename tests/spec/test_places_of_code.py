"""A job's code in a file and in Python: the script's path, repositories, and what is no file."""

import os
import re
import socket
from pathlib import Path

import pytest

from launcher import Estimator, JobSpec
from launcher.client.catalogue import price_list
from launcher.client.planning import Workload
from launcher.client.request import SourceTree
from launcher.client.spec import check
from launcher.errors import LauncherError, SpecError
from launcher.shared import PartitionFile

HOST = "instance_type: local\ninstance_count: 1\n"


def read_prices(_path):
    price_list()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for name in ("train.py", "deep/train.py"):
        (tmp_path / "src" / name).write_text("print(1)\n")
    (tmp_path / "other.py").write_text("")
    (tmp_path / "link").symlink_to("src")
    return tmp_path


def written(folder, script, source="src"):
    job = folder / "job.yaml"
    job.write_text(f"entry_point: {script}\nsource_dir: {source}\n{HOST}")
    return JobSpec.from_yaml(job)


@pytest.mark.parametrize(
    ("given", "source", "script"),
    [
        ("src/train.py", "src", "train.py"),
        ("src/deep/train.py", "src", "deep/train.py"),
        ("src/./deep/../train.py", "src", "train.py"),
        ("link/train.py", "src", "train.py"),
        ("src/train.py", "link", "train.py"),
    ],
)
def test_an_absolute_script_inside_its_source_folder_is_that_script(folder, given, source, script):
    spec = written(folder, folder / given, source)
    assert spec.entry_point == script
    check(spec, SourceTree(spec))


def test_in_python_as_well(folder, monkeypatch):
    monkeypatch.chdir(folder)
    estimator = Estimator(
        entry_point=str(folder / "src" / "train.py"),
        source_dir="src",
        instance_type="local",
        instance_count=1,
    )
    assert "entry_point: train.py" in estimator.to_yaml()


def test_an_absolute_script_elsewhere_is_outside(folder):
    spec = written(folder, folder / "other.py")
    with pytest.raises(SpecError, match="is outside source_dir"):
        check(spec, SourceTree(spec))


def test_a_job_file_with_a_repository_says_to_clone_it(folder):
    (folder / "job.yaml").write_text(
        f"entry_point: train.py\nsource_dir: src\n{HOST}git_config: {{repo: x, branch: main}}\n"
    )
    with pytest.raises(SpecError) as caught:
        JobSpec.from_yaml(folder / "job.yaml")
    (problem,) = caught.value.problems
    assert "git_config" in problem.what
    assert "clone the repository" in problem.fix


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_a_job_file_that_is_no_file_is_refused_at_once(folder, kind, monkeypatch):
    monkeypatch.chdir(folder)
    if kind == "pipe":
        os.mkfifo("job.yaml")
    elif kind == "device":
        Path("job.yaml").symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("job.yaml")
    with pytest.raises(SpecError, match=re.escape("job.yaml cannot be read")):
        JobSpec.from_yaml(folder / "job.yaml")


def test_a_job_file_from_a_stream_that_is_open_is_read(folder):
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.write(f"entry_point: train.py\nsource_dir: {folder}/src\n{HOST}")
    try:
        assert JobSpec.from_yaml(Path(f"/dev/fd/{reading}")).entry_point == "train.py"
    finally:
        os.close(reading)


@pytest.mark.parametrize("read", [Workload.from_yaml, PartitionFile.read, read_prices])
def test_other_files_that_are_no_files_are_refused_at_once(folder, monkeypatch, read):
    monkeypatch.setenv("LAUNCHER_PRICES", str(folder / "pipe"))
    os.mkfifo(folder / "pipe")
    with pytest.raises((LauncherError, OSError), match="it is a named pipe"):
        read(folder / "pipe")


def test_a_missing_script_is_seen_before_the_folder_is_walked(folder):
    (folder / "src" / "gone").symlink_to("nowhere")  # which a walk refuses
    spec = written(folder, "absent.py")
    with pytest.raises(SpecError, match="there is no file") as caught:
        check(spec, SourceTree(spec))
    assert len(caught.value.problems) == 1


def test_a_folder_of_too_many_files_is_refused(folder, monkeypatch):
    monkeypatch.setattr("launcher.client.request.source_tree._MOST_ENTRIES", 2)
    spec = written(folder, "train.py")
    with pytest.raises(SpecError, match="more than 2 files and folders"):
        check(spec, SourceTree(spec))
