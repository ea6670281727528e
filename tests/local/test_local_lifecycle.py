"""A job from its creation to its end, as any process sees it."""

from __future__ import annotations

import itertools
import json
import socket
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


def test_two_groups_run_to_completed(
    bench: Bench, isolation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    script = f"{HELLO}; import tempfile; tempfile.mkdtemp()"
    description = bench.run(script, groups=[group("data", 2), group("train", 1)])

    assert description["TrainingJobStatus"] == description["SecondaryStatus"] == "Completed"
    assert description["LocalIsolation"] == isolation
    assert "FailureReason" not in description
    assert bench.lines() == {
        "algo-1": ["hello from algo-1 data"],
        "algo-2": ["hello from algo-2 data"],
        "algo-3": ["hello from algo-3 train"],
    }
    assert list(temporary.iterdir()) == [], "no temporary files are left"


def test_a_job_passes_through_the_states_of_sagemaker(plain_bench: Bench) -> None:
    environment = {TOKEN_VARIABLE: "s3cret", "COLOUR": "blue"}
    script = 'print(os.environ["LAUNCHER_TOKEN"]); (ml / "model" / "weights").write_text("w")'
    vpc = {"Subnets": ["s"], "SecurityGroupIds": ["g"]}
    request = plain_bench.request(script, Environment=environment, Tags=[], VpcConfig=vpc)
    arn = plain_bench.session.create_training_job(**request)["TrainingJobArn"]
    description = plain_bench.end_of()

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

    assert description["TrainingJobArn"] == arn
    assert description["LocalNotes"] == ["VpcConfig has no effect on a local job"]
    assert description["Environment"] == {TOKEN_VARIABLE: REDACTED, "COLOUR": "blue"}
    for field in set(request) - {"Environment"}:
        assert description[field] == request[field], "it echoes the request"
    assert plain_bench.lines() == {"algo-1": ["s3cret"]}, "the hosts have the true token"

    model = plain_bench.output / "job" / "output" / "model.tar.gz"
    assert description["ModelArtifacts"]["S3ModelArtifacts"] == f"file://{model}"
    copy = plain_bench.folder / "copy.tar.gz"
    plain_bench.session.download(description["ModelArtifacts"]["S3ModelArtifacts"], copy)
    with tarfile.open(copy) as tar:
        assert tar.getnames() == ["weights"]

    plain_bench.stop()
    assert plain_bench.describe() == description, "stopping what has ended changes nothing"
    with pytest.raises(PlatformError, match=r"has no spot instances.*use_spot_instances: true"):
        plain_bench.session.interrupt_training_job(TrainingJobName="job")
    with pytest.raises(PlatformError, match="'job' was already used"):
        plain_bench.start('print("second")')
    assert plain_bench.describe() == description
    assert [path.name for path in (plain_bench.session.root / "jobs").iterdir()] == ["job"]


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


def test_jobs_are_listed_newest_first_and_unknown_ones_are_refused(plain_bench: Bench) -> None:
    plain_bench.run(HELLO, name="digits-1")
    plain_bench.run("sys.exit(1)", name="digits-2")
    session = plain_bench.session

    def names(**filters: str) -> list[str]:
        answer = session.list_training_jobs(**filters)
        return [each["TrainingJobName"] for each in answer["TrainingJobSummaries"]]

    assert names() == ["digits-2", "digits-1"]
    assert names(NameContains="s-1") == ["digits-1"]
    assert names(NameContains="digits", StatusEquals="Failed") == ["digits-2"]
    summary = session.list_training_jobs()["TrainingJobSummaries"][0]
    assert isinstance(summary["CreationTime"], datetime)
    assert summary["TrainingJobStatus"] == "Failed"

    with pytest.raises(JobNotFound, match="did you mean 'digits-1'"):
        session.describe_training_job(TrainingJobName="digit-1")
    with pytest.raises(JobNotFound, match="launcher list"):
        session.stop_training_job(TrainingJobName="other")
    with pytest.raises(JobNotFound):
        session.log_streams("../jobs/digits-1")


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
        states = bench.describe(name)["TrainingJobStatus"], bench.describe(name)["SecondaryStatus"]
        assert states == ("InProgress", "Training"), "creation returns before the end"

    one, two = (json.loads(bench.lines(name)["algo-1"][0]) for name in ("one", "two"))
    if isolation not in ("network", "container"):  # each job has all addresses and ports there
        assert one[0] != two[0]
        assert abs(int(one[1]) - int(two[1])) >= 64
        with pytest.raises(OSError, match="in use"):  # the machine's, and so everybody's
            socket.create_server(("", int(one[1])))
    for name in ("one", "two"):
        bench.stop(name)
    for name in ("one", "two"):
        assert bench.end_of(name)["TrainingJobStatus"] == "Stopped"
