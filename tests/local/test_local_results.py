"""What a job leaves: model, output, metrics, logs."""

from __future__ import annotations

import resource
import tarfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from waiting import wait_until

from launcher.client.sessions import LocalSession
from launcher.errors import PlatformError
from launcher.shared import extract_all


def contents(archive: Path) -> dict[str, str]:
    """The files of an archive."""
    with tarfile.open(archive) as tar:
        members = [member for member in tar.getmembers() if member.isfile()]
        return {member.name: tar.extractfile(member).read().decode() for member in members}


#: Files, beside the model too, and links as scripts make them: within the model, to other folders
#: of the host, and out.
WRITES = """
model, data = ml / "model", ml / "output" / "data" / "ckpt"
(model / "parts").mkdir()
(model / "parts" / host).write_text(host)
(model / "weights").write_text(host)
os.mkfifo(model / "pipe")
(model / "step-1").mkdir()
(model / "step-1" / "weights").write_text("1")
(model / "latest").symlink_to("step-1")
(model / "absolute").symlink_to(model / "step-1")
(model / "step-1" / "up").symlink_to("../latest/weights")
data.mkdir()
(data / "weights").write_text("2")
(data / "again").symlink_to(data)
(data / "far").symlink_to("/etc/hostname")
(ml / "checkpoints" / "best.pt").write_text("3")
(model / "folder").symlink_to(data)
(model / "best.pt").symlink_to(ml / "checkpoints" / "best.pt")
(model / "gone").symlink_to(ml / "no-such-file")
(model / "etc").symlink_to("/etc")
(model / "around").symlink_to(ml)
data.parent.joinpath("last").symlink_to(data.name)
closed = model / "closed"
closed.mkdir()
(closed / "weights").write_text("4")
(closed / "weights").chmod(0)
closed.chmod(0)
(ml / "code" / "runs").mkdir(parents=True)
(ml / "code" / "runs" / "lost").write_text("5")
"""


def test_the_results_of_all_hosts_are_merged(bench: Bench) -> None:
    description = bench.run(WRITES, hosts=3)

    assert description["TrainingJobStatus"] == "Completed"
    lost = [each for each in description["LocalLosses"] if "lost on AWS" in each]
    assert lost == [], "there is a model"
    model, data = bench.folder / "model", bench.folder / "data"
    for folder, name in ((model, "model"), (data, "output")):
        with tarfile.open(bench.output / f"job/output/{name}.tar.gz") as tar:
            modes = {each.mode for each in tar.getmembers() if each.name.startswith("closed")}
            extract_all(tar, folder)
        assert modes == ({0o700, 0o400} if name == "model" else set()), "what was closed is packed"
    links = {str(each.relative_to(model)): each for each in model.rglob("*") if each.is_symlink()}
    assert {name: str(each.readlink()) for name, each in links.items()} == {
        "latest": "step-1",
        "absolute": "step-1",
        "step-1/up": "../latest/weights",
    }
    files = {str(each.relative_to(model)): each for each in model.rglob("*") if each.is_file()}
    assert {name: each.read_text() for name, each in files.items()} == {
        "parts/algo-1": "algo-1",
        "parts/algo-2": "algo-2",
        "parts/algo-3": "algo-3",
        "weights": "algo-1",
        "step-1/weights": "1",
        "step-1/up": "1",
        "folder/weights": "2",
        "best.pt": "3",
        "closed/weights": "4",
    }
    assert not (model / "pipe").exists()
    assert (data / "last").readlink() == Path("ckpt")
    kept = "model.tar.gz has weights of algo-1; that of {} differs and was dropped"
    dropped = [kept.format(host) for host in ("algo-2", "algo-3")]
    assert [each for each in description["LocalNotes"] if "differs" in each] == dropped
    assert dropped[0] in (bench.job_folder() / "platform.log").read_text()
    lacking = {each for each in description["LocalNotes"] if "lacks" in each and "algo-2" in each}
    assert lacking == {
        "the model lacks etc: on algo-2 it is a link out of /opt/ml",
        "the model lacks folder/far: on algo-2 it is a link out of /opt/ml",
        "the model lacks around: on algo-2 it is a link to a folder around it",
        "the model lacks gone: on algo-2 it is a dangling link",
        "the output lacks ckpt/far: on algo-2 it is a link out of /opt/ml",
    }


@pytest.mark.parametrize(
    ("script", "stored"),
    [
        ('(ml / "model/partial").write_text("w"); sys.exit(1)', {"model": {"partial": "w"}}),
        ('(ml / "output/data/seen").write_text("7")', {"output": {"seen": "7"}}),
    ],
    ids=["a failed job", "output alone"],
)
def test_a_job_without_a_model_keeps_its_files(
    plain_bench: Bench, script: str, stored: dict[str, dict[str, str]]
) -> None:
    description = plain_bench.run(script)

    assert "ModelArtifacts" not in description
    folder = plain_bench.output / "job" / "output"
    found = {path.name: contents(path) for path in folder.iterdir()}
    assert found == {f"{name}.tar.gz": files for name, files in stored.items()}
    assert description["LocalNotes"] == []


METRICS = [
    {"Name": "loss", "Regex": "loss=([-0-9.e]+)"},
    {"Name": "accuracy", "Regex": "accuracy=(\\S+)"},
    {"Name": "never", "Regex": "never=(.)"},
    {"Name": "for ever", "Regex": "acc=((a+)+)$"},
]


def with_metrics(bench: Bench, script: str, **options: Any) -> dict[str, Any]:
    request = bench.request(script, **options)
    request["AlgorithmSpecification"]["MetricDefinitions"] = METRICS
    return request


def test_the_last_value_of_each_metric_whose_regex_ends(default_bench: Bench) -> None:
    script = """
    print("acc=" + "a" * 40 + "!", flush=True)
    print("epoch 1 loss=0.5 accuracy=0.9")
    print("epoch 2 loss=-2.5e-1, loss=0.125 accuracy=unknown", end="")
    """
    default_bench.session.create_training_job(**with_metrics(default_bench, script))
    description = default_bench.end_of()
    metrics = description["FinalMetricDataList"]

    assert description["TrainingJobStatus"] == "Completed"
    assert any("the metric 'for ever' is no longer read" in n for n in description["LocalNotes"])
    assert [(each["MetricName"], each["Value"]) for each in metrics] == [
        ("loss", 0.125),
        ("accuracy", 0.9),
    ]
    assert all(isinstance(each["Timestamp"], datetime) for each in metrics)


@pytest.mark.long
def test_metrics_are_known_while_the_job_runs_and_the_last_in_time_is_of_any_host(
    plain_bench: Bench,
) -> None:
    script = """
    if host == "algo-1":
        wait_for_go()
    print("loss=" + host[-1])
    """
    plain_bench.session.create_training_job(**with_metrics(plain_bench, script, hosts=2))
    (metric,) = wait_until(lambda: plain_bench.describe().get("FinalMetricDataList"))
    assert metric["Value"] == 2.0
    plain_bench.go()
    (metric,) = plain_bench.end_of()["FinalMetricDataList"]
    assert metric["Value"] == 1.0


def test_a_log_is_read_in_complete_lines(default_bench: Bench) -> None:
    script = """
    print("first")
    print("ünï", end="", flush=True)
    wait_for_go()
    print("code")
    print("to stderr", file=sys.stderr)
    print("the end", end="")
    """
    default_bench.start(script)
    (stream,) = wait_until(lambda: default_bench.session.log_streams("job"))
    lines, position = wait_until(
        lambda: (answer := default_bench.session.read_log("job", stream.name))[0] and answer
    )
    assert [line.text for line in lines] == ["first"]
    assert default_bench.session.read_log("job", stream.name, position) == ([], position)

    default_bench.go()
    default_bench.end_of()
    first = lines[0].time
    lines, end = default_bench.session.read_log("job", stream.name, position)
    assert first <= lines[0].time <= lines[2].time <= time.time()
    assert [line.text for line in lines] == ["ünïcode", "to stderr", "the end"]
    assert default_bench.session.read_log("job", stream.name, end) == ([], end)


@pytest.mark.long
def test_a_long_log_comes_in_pieces(plain_bench: Bench) -> None:
    plain_bench.run('print("x" * 3_000_000); print("\\n".join(map(str, range(300_000))))')
    (stream,) = plain_bench.session.log_streams("job")

    pieces, position = [], None
    while True:
        lines, position = plain_bench.session.read_log("job", stream.name, position, limit=70_000)
        if not lines:
            break
        assert len(lines) <= 70_000
        pieces.append([line.text for line in lines])
    flat = [line for lines in pieces for line in lines]
    text = "".join(line for line in flat if line.startswith("x"))
    assert text == "x" * 3_000_000
    assert flat[-300_000:] == [str(number) for number in range(300_000)]
    assert len(pieces) > 3


def test_lines_that_are_not_text_and_a_stream_that_does_not_exist(plain_bench: Bench) -> None:
    plain_bench.run(r'os.write(1, b"\xff\xfe\r\n50%\r100%\r\n\n\x0cpage\n")')
    assert plain_bench.lines() == {"algo-1": ["��", "50%\r100%", "", "\x0cpage"]}
    with pytest.raises(PlatformError, match="has no log stream"):
        plain_bench.session.read_log("job", "../../lock")


def test_a_download_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    stored, file = tmp_path / "stored", tmp_path / "mine" / "model.tar.gz"
    stored.write_bytes(bytes(100_000))
    file.parent.mkdir()
    file.write_text("the model before")
    session = LocalSession(tmp_path / "home")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            session.download(stored.as_uri(), file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_text() == "the model before"
    assert list(file.parent.iterdir()) == [file]
    session.download(stored.as_uri(), file)
    assert file.read_bytes() == bytes(100_000)


@pytest.mark.long
def test_a_damaged_job_does_not_hide_the_others(plain_bench: Bench) -> None:
    for name in ("good", "bad"):
        plain_bench.start("print('hello')", name=name)
        plain_bench.end_of(name)
    completed = '{"TrainingJobStatus": "Completed"}'
    for damage in ("", "{}", "not json", completed, "[" * 100_000):
        (plain_bench.job_folder("bad") / "status.json").write_text(damage)
        listed = plain_bench.session.list_training_jobs()["TrainingJobSummaries"]
        assert [job["TrainingJobName"] for job in listed] == ["good"]
        with pytest.raises(PlatformError, match=r"cannot read the description of job 'bad'"):
            plain_bench.session.describe_training_job(TrainingJobName="bad")
