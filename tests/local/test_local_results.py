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


def archives(bench: Bench, name: str = "job") -> dict[str, dict[str, str]]:
    folder = bench.output / name / "output"
    return {path.name: contents(path) for path in sorted(folder.iterdir())}


def test_the_models_of_all_hosts_are_merged(default_bench: Bench) -> None:
    script = """
    (ml / "model" / "parts").mkdir()
    (ml / "model" / "parts" / host).write_text(host)
    (ml / "model" / "config").write_text("the same")
    """
    description = default_bench.run(script, hosts=2)

    assert archives(default_bench) == {
        "model.tar.gz": {"parts/algo-1": "algo-1", "parts/algo-2": "algo-2", "config": "the same"}
    }
    assert description["LocalNotes"] == []


@pytest.mark.long
def test_the_first_host_wins_a_conflict_and_the_job_says_so(default_bench: Bench) -> None:
    description = default_bench.run('(ml / "model" / "weights").write_text(host)', hosts=11)

    assert archives(default_bench) == {"model.tar.gz": {"weights": "algo-1"}}
    assert description["LocalNotes"][0] == (
        "model.tar.gz has weights of algo-1; that of algo-2 differs and was dropped"
    )
    assert len(description["LocalNotes"]) == 10
    assert description["LocalNotes"][0] in (default_bench.job_folder() / "platform.log").read_text()


def test_output_data_is_packed_when_there_is_any(bench: Bench) -> None:
    bench.run('(ml / "output" / "data" / "predictions").write_text("7")')
    assert archives(bench) == {"output.tar.gz": {"predictions": "7"}}
    assert "ModelArtifacts" not in bench.end_of()


def test_sockets_and_pipes_are_not_packed(plain_bench: Bench) -> None:
    script = """
    os.mkfifo(ml / "model" / "pipe")
    os.symlink("weights", ml / "model" / "latest")
    (ml / "model" / "weights").write_text("w")
    """
    plain_bench.run(script)

    with tarfile.open(plain_bench.output / "job/output/model.tar.gz") as tar:
        assert tar.getnames() == ["latest", "weights"]


#: Links as scripts make them in their model: within it, to other folders of the host, and out.
LINKS = """
model, data = ml / "model", ml / "output" / "data" / "ckpt"
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
"""


def test_links_in_results(bench: Bench) -> None:
    description = bench.run(LINKS)

    with tarfile.open(bench.output / "job/output/model.tar.gz") as tar:
        extract_all(tar, bench.folder / "model")
    with tarfile.open(bench.output / "job/output/output.tar.gz") as tar:
        extract_all(tar, bench.folder / "data")
    model = bench.folder / "model"
    links = {str(each.relative_to(model)): each for each in model.rglob("*") if each.is_symlink()}
    assert {name: str(each.readlink()) for name, each in links.items()} == {
        "latest": "step-1",
        "absolute": "step-1",
        "step-1/up": "../latest/weights",
    }
    files = {str(each.relative_to(model)): each for each in model.rglob("*") if each.is_file()}
    assert {name: each.read_text() for name, each in files.items()} == {
        "step-1/weights": "1",
        "step-1/up": "1",
        "folder/weights": "2",
        "best.pt": "3",
    }
    assert (bench.folder / "data" / "last").readlink() == Path("ckpt")
    assert {each for each in description["LocalNotes"] if "lacks" in each} == {
        "the model lacks etc: on algo-1 it is a link out of /opt/ml",
        "the model lacks folder/far: on algo-1 it is a link out of /opt/ml",
        "the model lacks around: on algo-1 it is a link to a folder around it",
        "the model lacks gone: on algo-1 it is a dangling link",
        "the output lacks ckpt/far: on algo-1 it is a link out of /opt/ml",
    }


def test_what_a_program_has_closed_is_packed_all_the_same(bench: Bench) -> None:
    script = """
    folder = ml / "model" / "closed"
    folder.mkdir()
    (folder / "weights").write_text("1")
    (folder / "weights").chmod(0)
    folder.chmod(0)
    """
    assert bench.run(script)["TrainingJobStatus"] == "Completed"

    assert archives(bench) == {"model.tar.gz": {"closed/weights": "1"}}
    with tarfile.open(bench.output / "job" / "output" / "model.tar.gz") as tar:
        assert {member.mode for member in tar.getmembers()} == {0o700, 0o400}


def test_a_failed_job_keeps_its_files_but_has_no_model(plain_bench: Bench) -> None:
    description = plain_bench.run('(ml / "model" / "partial").write_text("w"); sys.exit(1)')

    assert "ModelArtifacts" not in description
    assert archives(plain_bench) == {"model.tar.gz": {"partial": "w"}}


METRICS = [
    {"Name": "loss", "Regex": "loss=([-0-9.e]+)"},
    {"Name": "accuracy", "Regex": "accuracy=(\\S+)"},
    {"Name": "never", "Regex": "never=(.)"},
]


def with_metrics(bench: Bench, script: str, **options: Any) -> dict[str, Any]:
    request = bench.request(script, **options)
    request["AlgorithmSpecification"]["MetricDefinitions"] = METRICS
    return request


def test_the_last_value_of_each_metric(default_bench: Bench) -> None:
    script = """
    print("epoch 1 loss=0.5 accuracy=0.9")
    print("epoch 2 loss=-2.5e-1, loss=0.125 accuracy=unknown", end="")
    """
    default_bench.session.create_training_job(**with_metrics(default_bench, script))
    metrics = default_bench.end_of()["FinalMetricDataList"]

    assert [(each["MetricName"], each["Value"]) for each in metrics] == [
        ("loss", 0.125),
        ("accuracy", 0.9),
    ]
    assert all(isinstance(each["Timestamp"], datetime) for each in metrics)


@pytest.mark.long
def test_metrics_are_known_while_the_job_runs(plain_bench: Bench) -> None:
    plain_bench.session.create_training_job(
        **with_metrics(plain_bench, 'print("loss=0.5"); time.sleep(600)')
    )
    wait_until(lambda: plain_bench.describe().get("FinalMetricDataList"))
    plain_bench.stop()
    plain_bench.end_of()


@pytest.mark.long
def test_the_last_value_is_the_last_in_time_over_all_hosts(plain_bench: Bench) -> None:
    script = """
    if host == "algo-1":
        time.sleep(2.5)
    print("loss=" + host[-1])
    """
    plain_bench.session.create_training_job(**with_metrics(plain_bench, script, hosts=2))
    (metric,) = plain_bench.end_of()["FinalMetricDataList"]
    assert metric["Value"] == 1.0


def test_a_log_is_read_in_complete_lines(default_bench: Bench) -> None:
    script = """
    print("first")
    print("ünï", end="", flush=True)
    while not (ml / "input/data/code/go").exists():
        time.sleep(0.02)
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

    (default_bench.folder / "code" / "job" / "go").touch()
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


def test_lines_that_are_not_text(plain_bench: Bench) -> None:
    plain_bench.run(r'os.write(1, b"\xff\xfe\r\n50%\r100%\r\n\n\x0cpage\n")')
    assert plain_bench.lines() == {"algo-1": ["��", "50%\r100%", "", "\x0cpage"]}


def test_a_stream_that_does_not_exist(plain_bench: Bench) -> None:
    plain_bench.run("pass")
    with pytest.raises(PlatformError, match="has no log stream"):
        plain_bench.session.read_log("job", "../../lock")


def test_a_regex_that_takes_for_ever_is_given_up_and_the_job_goes_on(plain_bench: Bench) -> None:
    request = plain_bench.request("print('acc=' + 'a' * 40 + '!', flush=True); print('loss=3')")
    request["AlgorithmSpecification"]["MetricDefinitions"] = [
        {"Name": "acc", "Regex": "acc=((a+)+)$"},
        {"Name": "loss", "Regex": "loss=([0-9]+)"},
    ]
    plain_bench.session.create_training_job(**request)
    description = plain_bench.end_of()
    assert description["TrainingJobStatus"] == "Completed"
    assert [metric["MetricName"] for metric in description["FinalMetricDataList"]] == ["loss"]
    assert any("the metric 'acc' is no longer read" in n for n in description["LocalNotes"])


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
@pytest.mark.parametrize(
    "damage",
    ["", "{}", "not json", '{"TrainingJobStatus": "Completed"}', "[" * 100_000],
    ids=lambda text: text[:40] or "nothing",
)
def test_a_damaged_job_does_not_hide_the_others(plain_bench: Bench, damage: str) -> None:
    for name in ("good", "bad"):
        plain_bench.start("print('hello')", name=name)
        plain_bench.end_of(name)
    (plain_bench.job_folder("bad") / "status.json").write_text(damage)
    listed = plain_bench.session.list_training_jobs()["TrainingJobSummaries"]
    assert [job["TrainingJobName"] for job in listed] == ["good"]
    with pytest.raises(PlatformError, match=r"cannot read the description of job 'bad'"):
        plain_bench.session.describe_training_job(TrainingJobName="bad")
