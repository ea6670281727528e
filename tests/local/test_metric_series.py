"""metrics.jsonl: what a reader gets while the job still appends, and after a disk was full."""

from __future__ import annotations

from pathlib import Path

from launcher.client.sessions import JobFolder, RecordedMetric, append_metrics, read_metrics


def loss(value: float) -> RecordedMetric:
    return {"MetricName": "loss", "Value": value, "Timestamp": 5.0}


def test_each_value_is_read_once(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    assert read_metrics(folder) == ([], 0)
    append_metrics(folder, [loss(1.0), loss(0.5)])
    values, position = read_metrics(folder)
    assert values == [loss(1.0), loss(0.5)]
    append_metrics(folder, [loss(0.25)])
    assert read_metrics(folder, position)[0] == [loss(0.25)]


def test_a_line_that_is_not_complete_yet_waits(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    append_metrics(folder, [loss(1.0)])
    content = folder.metrics.read_bytes()
    folder.metrics.write_bytes(content + content[:20])
    values, position = read_metrics(folder)
    assert (values, position) == ([loss(1.0)], len(content))
    assert read_metrics(folder, position) == ([], position)


def test_what_is_no_value_is_left_out(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    append_metrics(folder, [loss(float("nan")), loss(float("inf")), loss(1.0)])
    with folder.metrics.open("ab") as file:
        file.write(b'{"MetricName": "lo\n[]\n{}\n\xff\n')
    assert read_metrics(folder)[0] == [loss(1.0)]


def test_a_folder_that_takes_no_file_fails_nothing(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "absent")
    append_metrics(folder, [loss(1.0)])
    assert read_metrics(folder) == ([], 0)
