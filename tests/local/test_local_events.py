"""A local job's events: beside what its programs print, and in one log with it for a reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import Bench

from launcher import Job
from launcher.client.sessions import (
    JobFolder,
    LineTimeRecorder,
    LogEvent,
    bytes_before,
    read_log,
    stream_bytes,
)
from launcher.shared import parse_event

EMITTING = """
def emit(text):
    with open(os.environ["LAUNCHER_EVENTS"], "a") as events:
        events.write(f"launcher: {text}\\n")

print("printed", flush=True)
emit("said step=1 loss=0.5")
"""


def events(bench: Bench, name: str = "job") -> list[str]:
    found = (line.event for line in Job(name, bench.session).logs())
    return [event[0] for event in found if event]


def test_events_are_kept_beside_the_log_and_read_with_it(bench: Bench) -> None:
    metric = {"Name": "loss", "Regex": "loss=([0-9.]+)"}
    # A host that removes its file changes nothing else.
    request = bench.request(EMITTING + "os.unlink(os.environ['LAUNCHER_EVENTS'])\n")
    request["AlgorithmSpecification"]["MetricDefinitions"] = [metric]
    bench.session.create_training_job(**request)
    assert bench.end_of()["FinalMetricDataList"][0]["Value"] == 0.5
    (log,) = bench.job_folder().glob("logs/*.log")
    # Podman's DNS server says this in the first container where there is no syslog.
    of_engine = "failed to connect to syslog: Initialization\n"
    assert log.read_text().removeprefix(of_engine) == "printed\n"
    assert events(bench) == ["said"]
    assert bench.lines() == {"algo-1": ["printed", "launcher: said step=1 loss=0.5"]}


def test_no_event_is_lost_with_a_host_that_is_killed(bench: Bench) -> None:
    if bench.image != "local":
        pytest.skip("the first process of a container cannot kill itself")
    script = EMITTING + "emit('last')\nos.kill(os.getpid(), 9)\n"
    assert bench.run(script)["TrainingJobStatus"] == "Failed"
    assert events(bench) == ["said", "last"]


class Stream:
    """A host of a running job that prints and emits; the platform samples both."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = JobFolder(folder)
        self.folder.logs.mkdir()
        self.log, self.events = self.folder.log("algo-1-5"), self.folder.events("algo-1-5")
        self.recorder = LineTimeRecorder(self.folder.logs)
        monkeypatch.setattr(JobFolder, "status", lambda _: {"TrainingJobStatus": "InProgress"})

    def write(self, *, printed: str = "", emitted: str = "") -> None:
        for path, text in ((self.log, printed), (self.events, emitted)):
            with path.open("a") as file:
                file.write(text)
        self.recorder.sample(is_final=True)

    def read(self, limit: int = 10_000) -> list[LogEvent]:
        """All lines so far, read piece by piece."""
        lines: list[LogEvent] = []
        position = None
        while True:
            piece, position = read_log(self.folder, "algo-1-5", position, limit)
            if not piece:
                assert bytes_before(position) <= stream_bytes(self.folder, "algo-1-5")
                return lines
            lines += piece


def test_both_are_merged_by_time_in_pieces_of_any_size(tmp_path: Path, monkeypatch) -> None:
    stream = Stream(tmp_path, monkeypatch)
    for number in range(30):
        stream.write(printed=f"line {number}\n" * 3, emitted=f"launcher: event n={number}\n")
    whole = stream.read()
    assert [line.time for line in whole] == sorted(line.time for line in whole)
    assert len(whole) == 120
    for limit in (1, 2, 7):
        assert stream.read(limit) == whole
    numbers = [event[1]["n"] for line in whole if (event := parse_event(line.text))]
    assert numbers == list(range(30))


@pytest.mark.long
def test_more_lines_than_are_read_at_once_keep_the_order(tmp_path: Path, monkeypatch) -> None:
    stream = Stream(tmp_path, monkeypatch)
    for number in range(4):
        stream.write(printed="x" * 99 + "\n", emitted=f"launcher: event n={number}\n")
        stream.write(printed=("y" * 99 + "\n") * 9_000)
    lines = stream.read()
    assert len(lines) == 4 * 9_002
    assert [line.time for line in lines] == sorted(line.time for line in lines)


def test_a_line_that_is_not_complete_holds_no_event_back(tmp_path: Path, monkeypatch) -> None:
    stream = Stream(tmp_path, monkeypatch)
    stream.write(printed="one\n 10%|")
    stream.write(emitted="launcher: event n=1\n")
    assert [line.text for line in stream.read()] == ["one", "launcher: event n=1"]
