"""A job from its creation to its end, as any process sees it."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tarfile
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from bench import Bench, group

from launcher.errors import JobNotFound, PlatformError
from launcher.shared import REDACTED, TOKEN_VARIABLE

HELLO = 'print("hello from", host, group)'


def test_one_host_runs_to_completed(bench: Bench, isolation: str) -> None:
    description = bench.run(HELLO)

    assert description["TrainingJobStatus"] == description["SecondaryStatus"] == "Completed"
    assert description["LocalIsolation"] == isolation
    assert bench.lines() == {"algo-1": ["hello from algo-1 homogeneousCluster"]}
    assert "FailureReason" not in description


def test_two_groups_run_to_completed(bench: Bench) -> None:
    description = bench.run(HELLO, groups=[group("data", 2), group("train", 1)])

    assert description["TrainingJobStatus"] == "Completed"
    assert bench.lines() == {
        "algo-1": ["hello from algo-1 data"],
        "algo-2": ["hello from algo-2 data"],
        "algo-3": ["hello from algo-3 train"],
    }


def test_a_job_passes_through_the_states_of_sagemaker(plain_bench: Bench) -> None:
    description = plain_bench.run(HELLO)

    transitions = description["SecondaryStatusTransitions"]
    assert [each["Status"] for each in transitions] == [
        "Starting",
        "Downloading",
        "Training",
        "Uploading",
        "Completed",
    ]
    for earlier, later in itertools.pairwise(transitions):
        assert earlier["StartTime"] <= earlier["EndTime"] == later["StartTime"]
    assert description["CreationTime"] <= description["TrainingStartTime"]
    assert description["TrainingEndTime"] == transitions[-1]["StartTime"]
    seconds = description["TrainingEndTime"] - description["TrainingStartTime"]
    billed = timedelta(seconds=description["BillableTimeInSeconds"])
    assert seconds <= billed < seconds + timedelta(seconds=1)


def test_the_description_echoes_the_request_without_its_token(plain_bench: Bench) -> None:
    environment = {TOKEN_VARIABLE: "s3cret", "COLOUR": "blue"}
    request = plain_bench.request(
        'print(os.environ["LAUNCHER_TOKEN"])', Environment=environment, Tags=[]
    )
    arn = plain_bench.session.create_training_job(**request)["TrainingJobArn"]
    description = plain_bench.end_of()

    assert description["TrainingJobArn"] == arn
    assert description["Environment"] == {TOKEN_VARIABLE: REDACTED, "COLOUR": "blue"}
    for field in set(request) - {"Environment"}:
        assert description[field] == request[field]
    assert plain_bench.lines() == {"algo-1": ["s3cret"]}, "the hosts have the true one"


def test_creation_returns_before_the_job_has_ended(bench: Bench) -> None:
    bench.start('print("up"); time.sleep(600)')

    bench.wait_for_line("up")
    assert bench.describe()["TrainingJobStatus"] == "InProgress"
    assert bench.describe()["SecondaryStatus"] == "Training"
    bench.stop()
    bench.end_of()


@pytest.mark.long
def test_a_job_outlives_the_process_that_created_it(plain_bench: Bench) -> None:
    request = plain_bench.request('time.sleep(0.5); print("still here")')
    program = (
        "import json, sys; from launcher.client.sessions.local import LocalSession\n"
        f"LocalSession({str(plain_bench.session.root)!r}, 'process')"
        ".create_training_job(**json.load(sys.stdin))"
    )
    subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(request), text=True, check=True
    )

    assert plain_bench.end_of()["TrainingJobStatus"] == "Completed"
    assert plain_bench.lines() == {"algo-1": ["still here"]}


def test_a_caller_in_a_folder_with_a_launcher_of_its_own(
    plain_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("launcher.py", "platform.py"):
        (plain_bench.folder / name).write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(plain_bench.folder)

    assert plain_bench.run(HELLO)["TrainingJobStatus"] == "Completed"


def test_a_name_is_used_once(plain_bench: Bench) -> None:
    first = plain_bench.run('print("first")')

    with pytest.raises(PlatformError, match="'job' was already used"):
        plain_bench.start('print("second")')
    assert plain_bench.describe() == first
    assert plain_bench.lines() == {"algo-1": ["first"]}
    assert [path.name for path in (plain_bench.session.root / "jobs").iterdir()] == ["job"]


def test_unknown_jobs(plain_bench: Bench) -> None:
    plain_bench.run(HELLO, name="digits-1")

    session = plain_bench.session
    with pytest.raises(JobNotFound, match="did you mean 'digits-1'"):
        session.describe_training_job(TrainingJobName="digit-1")
    with pytest.raises(JobNotFound, match="launcher list"):
        session.stop_training_job(TrainingJobName="other")
    with pytest.raises(JobNotFound):
        session.log_streams("../jobs/digits-1")


def test_jobs_are_listed_newest_first(plain_bench: Bench) -> None:
    plain_bench.run(HELLO, name="digits-1")
    plain_bench.run("sys.exit(1)", name="digits-2")
    plain_bench.run(HELLO, name="letters-1")

    def names(**filters: str) -> list[str]:
        answer = plain_bench.session.list_training_jobs(**filters)
        return [each["TrainingJobName"] for each in answer["TrainingJobSummaries"]]

    assert names() == ["letters-1", "digits-2", "digits-1"]
    assert names(NameContains="digits") == ["digits-2", "digits-1"]
    assert names(NameContains="digits", StatusEquals="Failed") == ["digits-2"]
    summary = plain_bench.session.list_training_jobs()["TrainingJobSummaries"][0]
    assert isinstance(summary["CreationTime"], datetime)
    assert summary["TrainingJobStatus"] == "Completed"


def test_two_jobs_at_once_share_no_address_and_no_port(bench: Bench, isolation: str) -> None:
    script = """
    port = os.environ.get("LAUNCHER_PORT_BASE", "7770")
    print(json.dumps([os.environ.get("LAUNCHER_HOST_ADDRESSES"), port]))
    server = socket.create_server(("", int(port)))
    print("up")
    time.sleep(600)
    """
    for name in ("one", "two"):
        bench.start(script, name=name)
    for name in ("one", "two"):
        bench.wait_for_line("up", name=name)

    one, two = (json.loads(bench.lines(name)["algo-1"][0]) for name in ("one", "two"))
    if isolation != "network":  # there, each job has all addresses and ports to itself
        assert one[0] != two[0]
        assert abs(int(one[1]) - int(two[1])) >= 64
    for name in ("one", "two"):
        bench.stop(name)
    for name in ("one", "two"):
        assert bench.end_of(name)["TrainingJobStatus"] == "Stopped"


def test_no_temporary_files_are_left(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))

    bench.run("import tempfile; tempfile.mkdtemp()")
    assert list(temporary.iterdir()) == []


def test_results_lie_under_the_output_path(plain_bench: Bench) -> None:
    description = plain_bench.run('(ml / "model" / "weights").write_text("w")')

    model = plain_bench.output / "job" / "output" / "model.tar.gz"
    assert description["ModelArtifacts"]["S3ModelArtifacts"] == f"file://{model}"
    copy = plain_bench.folder / "copy.tar.gz"
    plain_bench.session.download(description["ModelArtifacts"]["S3ModelArtifacts"], copy)
    with tarfile.open(copy) as tar:
        assert tar.getnames() == ["weights"]
