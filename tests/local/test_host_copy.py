"""Copies of what a host has written."""

from pathlib import Path

import pytest
from bench import channel, group
from users import as_nobody, report_of

from launcher.client.sessions import Isolation, JobFolder, Settings, copy_from_host
from launcher.errors import PlatformError

WRITES = """\
folder = ml / "model" / "steps"
folder.mkdir()
(folder / "1.pt").write_text("one of " + host)
(ml / "model" / "last").symlink_to("steps/1.pt")
(ml / "model" / "absolute").symlink_to(ml / "model" / "steps")
server = socket.socket(socket.AF_UNIX)
os.chdir(folder)
server.bind("socket")
if host == "algo-2":
    (ml / "output/data/only.txt").write_text("2")
print("written", flush=True)
time.sleep(SECONDS)
"""


@pytest.fixture(params=["runs", "ended"])
def written(bench, request):
    """A job of two hosts, while it runs and once it has ended."""
    groups = [group("data_group", 1), group("train_group", 1)]
    data = bench.folder / "data"
    data.mkdir()
    (data / "x.csv").write_text("1")
    channels = [channel("train", f"file://{data}")]
    if request.param == "ended":
        bench.run(WRITES.replace("SECONDS", "0"), groups=groups, channels=channels)
    else:
        bench.start(WRITES.replace("SECONDS", "600"), groups=groups, channels=channels)
        bench.wait_for_line("written", hosts=2)
    return bench


def copy(bench, host, path, target):
    return bench.session.copy_from_host("job", host, path, target)


@pytest.mark.long
def test_files_folders_and_links_are_copied(written, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    assert copy(written, "algo-1", "model/steps/1.pt", target) == target / "1.pt"
    assert (target / "1.pt").read_text() == "one of algo-1"
    assert copy(written, "algo-2", "/opt/ml/model", target / "new") == target / "new"
    assert (target / "new/last").read_text() == "one of algo-2"
    assert {path.name for path in (target / "new/steps").iterdir()} == {"1.pt"}, "no socket"
    copy(written, "algo-1", "model", target / "new")
    assert (target / "new/model/last").read_text() == "one of algo-1"
    assert copy(written, "algo-2", "model/last", target / "file").read_text() == "one of algo-2"
    assert (copy(written, "algo-2", "model/absolute", target) / "1.pt").exists()


@pytest.mark.long
def test_what_is_not_there_is_refused_with_what_is(written, tmp_path):
    with pytest.raises(PlatformError, match="has no /opt/ml/model/x; it has /opt/ml/model/"):
        copy(written, "algo-1", "model/x", tmp_path)
    with pytest.raises(PlatformError, match="but algo-2 has: use --host algo-2"):
        copy(written, "algo-1", "output/data/only.txt", tmp_path)
    with pytest.raises(PlatformError, match="/etc/passwd is not below /opt/ml"):
        copy(written, "algo-1", "../../etc/passwd", tmp_path)
    with pytest.raises(PlatformError, match="no host 'algo-3': use one of algo-1, algo-2"):
        copy(written, "algo-3", "model", tmp_path)
    with pytest.raises(PlatformError, match="No such file"):
        copy(written, "algo-1", "model/last", tmp_path / "missing" / "file")


@pytest.mark.long
def test_a_channel_is_where_it_always_was(written, tmp_path, isolation):
    if isolation == "process":
        assert copy(written, "algo-1", "input/data/train/x.csv", tmp_path / "x").read_text() == "1"
        return
    with pytest.raises(PlatformError, match=r"its data is file:///.*/data"):
        copy(written, "algo-1", "input/data/train/x.csv", tmp_path)


@pytest.mark.long
def test_read_only_files_are_copied_again():
    assert report_of("read_only_scenario.py", as_nobody) == {"copies": ["x", "x"]}


def test_links_are_copied_again_and_not_written_through(tmp_path):
    job = JobFolder(tmp_path / "job")
    job.path.mkdir()
    settings = Settings(isolation=Isolation.PROCESS, boot="")
    request = {
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"InstanceType": "local", "InstanceCount": 1},
    }
    job.write(request, settings, {})
    saved = job.hosts / "algo-1/ml/checkpoints"
    (saved / "steps").mkdir(parents=True)
    for name in ("1.pt", "2.pt"):
        (saved / name).write_text(name)
    for link, end in {"last.pt": "1.pt", "best.pt": "1.pt", "latest": "steps"}.items():
        (saved / link).symlink_to(end)
    copy = copy_from_host(job, "algo-1", "checkpoints", tmp_path)
    (saved / "last.pt").unlink()
    (saved / "last.pt").symlink_to("2.pt")
    (saved / "best.pt").unlink()
    (saved / "best.pt").write_text("3")
    assert copy_from_host(job, "algo-1", "checkpoints", tmp_path) == copy
    assert [(copy / name).read_text() for name in ("last.pt", "best.pt", "1.pt")] == [
        "2.pt",
        "3",
        "1.pt",
    ]
    assert (copy / "latest").readlink() == Path("steps")
