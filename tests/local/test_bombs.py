"""Archives and inputs that would fill the disk or the memory are refused before they do."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, channel
from cloud import Cloud
from small_disk import small_disk
from test_local_script_mode import asked

from launcher.client.sessions import SourceArchive, unpack_source
from launcher.errors import PlatformError, SpecError
from launcher.shared import bounded_archives, extract_all, open_archive, space_problem

PETABYTE = 10**15
LAUNCH = Path(__file__).parents[2] / "entrypoints" / "launch.py"


def member(name: str, *, type: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> Any:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = type, link, mode
    return entry


def packed(*members: tarfile.TarInfo, content: bytes = b"text", kind: str = "gz") -> bytes:
    """An archive whose files have the same content."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=f"w:{kind}", format=tarfile.PAX_FORMAT) as tar:
        for each in members:
            each.size = len(content) if each.isreg() else 0
            tar.addfile(each, io.BytesIO(content) if each.isreg() else None)
    return archive.getvalue()


def claiming(size: int, name: str = "code/zeros") -> bytes:
    """A small archive whose only file is said to have a size."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    return gzip.compress(entry.tobuf() + bytes(1 << 16))


def of_zeros(megabytes: int, name: str = "zeros") -> bytes:
    """A small archive whose only file has so many zeros."""
    return packed(member(name), content=bytes(megabytes << 20))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 16 MB."""
    with small_disk(tmp_path / "small", "16m") as place:
        yield place


def free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@pytest.mark.parametrize("content", [of_zeros(20), claiming(PETABYTE)], ids=["zeros", "a claim"])
def test_a_source_that_does_not_fit_is_refused(small: Path, tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "sourcedir.tar.gz"
    archive.write_bytes(content)
    before = free(small)
    with pytest.raises(SpecError) as caught:
        unpack_source(archive, small / "source", "s3://bucket/sourcedir.tar.gz")
    assert "it unpacks to more than the 15 MB that are free" in str(caught.value)
    assert "free space there, or look into the archive" in str(caught.value)
    assert before - free(small) < 1 << 16


def test_code_that_does_not_fit_is_not_unpacked_for_pip(small: Path, tmp_path: Path) -> None:
    archive = tmp_path / "bundle.tar.gz"
    archive.write_bytes(of_zeros(20))
    code = SourceArchive(archive=archive, top="", requirements={})
    with pytest.raises(PlatformError, match="it unpacks to more than the 15 MB"):
        code.unpack(small)
    assert not list(small.iterdir())


def test_a_list_of_packages_is_no_gigabyte(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.tar.gz"
    archive.write_bytes(of_zeros(2, "requirements.txt"))
    code = SourceArchive(archive=archive, top="", requirements={})
    with pytest.raises(PlatformError, match="has 2,097,152 bytes: it may have 1,048,576"):
        code.read("requirements.txt")


#: A header of pax, which tarfile takes into memory as a whole.
HEADER_BOMB = """
import gzip, sys, tarfile
entry = tarfile.TarInfo("long")
entry.type = tarfile.XHDTYPE
entry.size = 2 << 30
with gzip.open(sys.argv[1], "wb", compresslevel=1) as file:
    file.write(entry.tobuf())
    for _ in range(2 << 10):
        file.write(bytes(1 << 20))
"""
READ = """
import re, sys, tarfile
from pathlib import Path
from launcher.shared.bounded_archives import open_archive
try:
    with open_archive(Path(sys.argv[1])) as archive:
        list(archive)
except tarfile.TarError as error:
    print(error)
# Not ru_maxrss, which a child has from the process that started it.
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
print(int(peak[1]) // 1024, "MB")
"""


@pytest.mark.long
def test_a_header_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.tar.gz"
    subprocess.run([sys.executable, "-c", HEADER_BOMB, str(bomb)], check=True)
    assert bomb.stat().st_size < 20 << 20
    command = [sys.executable, "-c", READ, str(bomb)]
    words, memory = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert words == f"it has a header of {2 << 30} bytes"
    assert int(memory.split()[0]) < 100


def test_more_files_than_any_source_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_archives, "_MOST_FILES", 100)
    path = tmp_path / "many.tar"
    for count, problem in ((100, None), (101, "it has more than 100 files")):
        with tarfile.open(path, "w") as tar:
            for number in range(count):
                tar.addfile(tarfile.TarInfo(f"{number}"))
        with open_archive(path) as archive:
            assert space_problem(archive, tmp_path) == problem


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", ""])
def test_archives_of_each_kind_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "source"
    path.write_bytes(packed(member("a"), content=b"a", kind=kind))
    with open_archive(path) as archive:
        assert space_problem(archive, tmp_path) is None
        extract_all(archive, tmp_path / "out")
    assert (tmp_path / "out" / "a").read_bytes() == b"a"


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\x1f\x8bno gzip", b"BZhno"])
def test_what_is_no_archive_is_an_error_of_archives(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "source"
    path.write_bytes(content)
    with pytest.raises((tarfile.TarError, OSError, EOFError)), open_archive(path) as archive:
        list(archive)


def with_headers(**headers: str) -> bytes:
    entry = member("train.py")
    entry.pax_headers = headers
    return packed(entry)


def damaged(content: bytes) -> bytes:
    """A compressed archive of one file, with sixteen other bytes in its middle."""
    whole = packed(member("train.py"), content=content)
    middle = len(whole) // 2
    return whole[:middle] + bytes(16) + whole[middle + 16 :]


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        pytest.param(damaged(random.Random(0).randbytes(10**5)), "CRC check", id="content"),
        pytest.param(damaged(b"%d\n" * 10**5 % (*range(10**5),)), "decompress", id="blocks"),
        pytest.param(with_headers(path="a\0b"), "null byte", id="name"),
        pytest.param(with_headers(**{"GNU.sparse.map": "a,b"}), "int()", id="header"),
    ],
)
def test_a_damaged_source_is_refused(tmp_path: Path, archive: bytes, reason: str) -> None:
    path = tmp_path / "sourcedir.tar.gz"
    path.write_bytes(archive)
    with pytest.raises(SpecError, match="cannot be unpacked") as caught:
        unpack_source(path, tmp_path / "source", "s3://bucket/sourcedir.tar.gz")
    assert reason in str(caught.value)


def test_a_bundle_that_does_not_fit_fails_the_job_with_its_reason(bench: Bench) -> None:
    request = bench.request("pass")
    code = bench.folder / "code" / "job"
    shutil.copy(LAUNCH, code / "launch.py")
    (code / "bundle.tar.gz").write_bytes(claiming(PETABYTE))
    bench.session.create_training_job(**request)

    description = bench.end_of()
    assert description["TrainingJobStatus"] == "Failed"
    assert description["FailureReason"].startswith("the bundle unpacks to more than the ")
    assert not list((bench.job_folder() / "hosts/algo-1/ml/code").iterdir())


@pytest.mark.long
def test_a_script_whose_archive_does_not_fit_fails_the_job(
    s3_bench: Bench, cloud: Cloud, isolation: str
) -> None:
    if isolation == "container":
        pytest.skip("there the image's own toolkit unpacks the script, and this one has none")
    body = claiming(PETABYTE, "train.py")
    cloud.client.put_object(Bucket="bucket", Key="job/source/sourcedir.tar.gz", Body=body)
    s3_bench.session.create_training_job(**asked(s3_bench))
    reason = s3_bench.end_of()["FailureReason"]
    assert "cannot be unpacked: it unpacks to more than the " in reason


@pytest.mark.long
def test_an_input_that_does_not_fit_is_not_downloaded(small: Path, cloud: Cloud) -> None:
    cloud.client.put_object(Bucket="bucket", Key="model/model.tar.gz", Body=bytes(20 << 20))
    bench = Bench(small, "process", platform_environment=cloud.environment)
    description = bench.run("pass", channels=[channel("model", "s3://bucket/model")])
    assert description["TrainingJobStatus"] == "Failed"
    assert description["FailureReason"].startswith(
        "ClientError: Data download failed: s3://bucket/model has 21.0 MB, and "
    )
    assert "free space there, or use less" in description["FailureReason"]
    assert free(small) > 10 << 20


def test_reading_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    archive = tmp_path / "zeros.tar.gz"
    archive.write_bytes(of_zeros(100))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open_archive(archive) as tar:
        space_problem(tar, tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


SYMLINK, HARDLINK, FIFO = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE
OUT = {
    "up": [member("../outside")],
    "up from a folder": [member("a/../../outside")],
    "absolute": [member("/tmp/launcher-outside")],
    "link up": [member("a", type=SYMLINK, link=".."), member("a/outside")],
    "absolute link": [member("a", type=SYMLINK, link="/tmp"), member("a/launcher-outside")],
    "chain": [
        member("d", type=tarfile.DIRTYPE, mode=0o755),
        member("d/up", type=SYMLINK, link=".."),
        member("b", type=SYMLINK, link="d/up/.."),
        member("b/outside"),
    ],
    "hard link": [member("a", type=HARDLINK, link="../file"), member("a")],
    "pipe": [member("a", type=FIFO)],
}


@pytest.fixture(params=["filter", "own checks"])
def tar_filter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Python with tarfile's filter, and as 3.10.11 and 3.11.3 were, without."""
    if request.param == "own checks":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        monkeypatch.setattr(tarfile.TarFile, "extraction_filter", trusting, raising=False)
    return str(request.param)


def trusting(_: object, entry: tarfile.TarInfo, __: str) -> tarfile.TarInfo:
    return entry


@pytest.mark.usefixtures("tar_filter")
@pytest.mark.parametrize("members", OUT.values(), ids=OUT)
def test_nothing_is_unpacked_out_of_a_folder(tmp_path: Path, members: Any) -> None:
    path = tmp_path / "packed.tar.gz"
    path.write_bytes(packed(*members))
    (tmp_path / "file").write_text("the user's")
    folder = tmp_path / "folder"
    folder.mkdir()
    # The filter takes the slash from "/tmp/x", and so goes on.
    with open_archive(path) as archive, contextlib.suppress(tarfile.TarError):
        extract_all(archive, folder)
    assert {each.name for each in tmp_path.iterdir()} == {"packed.tar.gz", "file", "folder"}
    assert (tmp_path / "file").read_text() == "the user's"
    assert not Path("/tmp/launcher-outside").exists()


@pytest.mark.usefixtures("tar_filter")
def test_what_a_source_has_is_unpacked(tmp_path: Path) -> None:
    content = packed(
        member("deep/train.py", mode=0o4755),
        member("deep/link", type=SYMLINK, link="../deep/train.py"),
        member("hard", type=HARDLINK, link="deep/train.py", mode=0o4755),
        member("folder", type=tarfile.DIRTYPE, mode=0o755),
    )
    (tmp_path / "packed.tar.gz").write_bytes(content)
    with open_archive(tmp_path / "packed.tar.gz") as archive:
        extract_all(archive, tmp_path / "out")
    out = tmp_path / "out"
    assert [(out / name).read_text() for name in ("deep/link", "hard")] == ["text", "text"]
    assert (out / "deep/train.py").stat().st_mode & 0o7777 == 0o755
    assert (out / "folder").is_dir()


@pytest.mark.parametrize("members", OUT.values(), ids=OUT)
def test_a_bundle_with_other_than_files_below_it_is_refused(tmp_path: Path, members: Any) -> None:
    ml = tmp_path / "ml"
    (ml / "input/data/code").mkdir(parents=True)
    (ml / "output").mkdir()
    (ml / "input/data/code/bundle.tar.gz").write_bytes(packed(*members))
    result = subprocess.run(
        [sys.executable, LAUNCH],
        env={"SAGEMAKER_BASE_DIR": str(ml), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "which is no file below its folder" in (ml / "output/failure").read_text()
    assert not [*tmp_path.glob("outside"), *ml.glob("outside"), *tmp_path.glob("ml/a")]
