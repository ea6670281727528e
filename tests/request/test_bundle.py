"""The code bundle: always the same bytes, and only what belongs in it."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest
from stored_bytes import bundle_bytes

import launcher
from launcher.client.request import build_bundle


def members(made):
    with tarfile.open(fileobj=io.BytesIO(bundle_bytes(made))) as archive:
        return archive.getmembers()


def test_the_same_files_give_the_same_bytes_whatever_their_times(source):
    source.write_all({"b.py": "b", "a/c.py": "c"})
    first = bundle_bytes(build_bundle(source.spec()))
    for path in source.root.rglob("*"):
        os.utime(path, (1, 1))
    (source.root / "b.py").unlink()
    source.write_all({"b.py": "b"})
    assert bundle_bytes(build_bundle(source.spec())) == first


def test_a_changed_byte_changes_it(source):
    first = bundle_bytes(build_bundle(source.spec()))
    source.write_all({"train.py": "print('hellp')\n"})
    assert bundle_bytes(build_bundle(source.spec())) != first


def test_members_are_sorted_and_carry_no_time_owner_or_odd_mode(source):
    source.write_all({"run.sh": "#!/bin/sh\n", "secret.txt": ""})
    (source.root / "run.sh").chmod(0o700)
    (source.root / "secret.txt").chmod(0o600)
    made = build_bundle(source.spec())
    found = members(made)
    assert [member.name for member in found] == sorted(made.files) == list(made.files)
    assert {(member.mtime, member.uid, member.gid) for member in found} == {(0, 0, 0)}
    assert {(member.uname, member.gname) for member in found} == {("", "")}
    modes = {member.name: member.mode for member in found}
    assert modes["code/run.sh"] == 0o755
    assert modes["code/secret.txt"] == modes["code/train.py"] == 0o644
    assert bundle_bytes(made)[4:8] == bytes(4), "the gzip header has a time"


def test_the_job_world_travels_and_the_sdk_world_does_not(source):
    files = build_bundle(source.spec()).files
    assert "lib/launcher/__init__.py" in files
    assert "lib/launcher/shared/job_document.py" in files
    assert "lib/launcher/runtime/__init__.py" in files
    assert "lib/launcher/parallel/pipeline.py" in files
    sdk_world = ("spec", "request", "sessions", "cli", "job", "estimator", "catalogue")
    tops = {file.removeprefix("lib/launcher/").split("/")[0] for file in files if "lib/" in file}
    assert not tops & {*sdk_world, *(f"{name}.py" for name in sdk_world)}
    assert not [file for file in files if "__pycache__" in file]


def test_the_content_is_what_was_in_the_folder(source):
    made = build_bundle(source.spec())
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(bundle_bytes(made)))) as archive:
        assert archive.extractfile("code/train.py").read() == b"print('hello')\n"
        contract = archive.extractfile("lib/launcher/shared/job_document.py").read()
    assert contract == (Path(launcher.__file__).parent / "shared" / "job_document.py").read_bytes()


@pytest.mark.long
def test_a_large_source_is_warned_of_with_its_five_biggest_files(source):
    for number in range(7):
        with (source.root / f"big{number}").open("wb") as file:
            file.truncate((8 + number) * 2**20)
    (warning,) = build_bundle(source.spec()).warnings
    assert "77.0 MiB" in warning
    assert [f"big{n}" in warning for n in range(7)] == [False, False, True, True, True, True, True]
    assert warning.index("big6") < warning.index("big5")
    assert ".launcherignore" in warning


def test_a_source_of_ordinary_size_is_not_warned_of(source):
    assert build_bundle(source.spec()).warnings == ()
