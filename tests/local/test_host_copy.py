"""Copies of what a host has written."""

from pathlib import Path

import pytest
from bench import channel, group, job_without_programs

from launcher.client.sessions import copy_from_host
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
def test_what_a_host_has_is_copied_and_what_it_lacks_is_refused(written, tmp_path, isolation):
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
    if isolation == "process":
        assert copy(written, "algo-1", "input/data/train/x.csv", tmp_path / "x").read_text() == "1"
    else:
        with pytest.raises(PlatformError, match=r"its data is file:///.*/data"):
            copy(written, "algo-1", "input/data/train/x.csv", tmp_path)


def test_links_are_copied_again_and_not_written_through(tmp_path):
    job, _ = job_without_programs(tmp_path)
    saved = job.hosts / "algo-1/ml/checkpoints"
    (saved / "steps").mkdir()
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
