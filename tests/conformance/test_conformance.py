"""What a job does, whoever runs it: the same clauses for this machine and for a client of AWS."""

import json
import tarfile
from datetime import datetime, timedelta, timezone
from functools import partial

import pytest
from conformance_platforms import aws_platform, local_platform
from needs import skip_without_isolation

from launcher import (
    InstanceGroup,
    Job,
    JobFailed,
    JobNotFound,
    JobStopped,
    PyTorch,
    SpecError,
    TrainingInput,
)

WAITS = "import time\nprint('waiting', flush=True)\ntime.sleep(600)\n"


PLATFORMS = {
    "local": local_platform,
    "aws": aws_platform,
    "container": partial(local_platform, isolation="container"),
}
IN_CONTAINERS = pytest.param("container", marks=pytest.mark.library("containers"))


@pytest.fixture(scope="module", params=["local", "aws", IN_CONTAINERS])
def platform(request, tmp_path_factory):
    if request.param == "container":
        skip_without_isolation("container")
    with PLATFORMS[request.param](tmp_path_factory.mktemp(request.param)) as made:
        yield made


def first_line(job):
    return next(line for line in job.logs(follow=True) if not line.is_event)


@pytest.mark.long
def test_a_job_that_completes(platform, tmp_path):
    script = """
import os, pathlib
print("loss=0.25", flush=True)
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text("weights")
pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "notes.txt").write_text("notes")
"""
    states = []
    job = platform.start(
        script,
        tmp_path,
        metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    ).wait(states=lambda change: states.append(change.word))
    assert (job.status, job.secondary_status) == ("Completed", "Completed")
    job.raise_for_status()
    assert states[0] == "Starting"
    assert states[-1] == "Completed"
    assert job.metrics == {"loss": 0.25}
    assert "loss=0.25" in [line.text for line in job.logs()]
    description = job.description()
    assert description["CreationTime"].tzinfo is not None
    assert description["BillableTimeInSeconds"] >= 1
    assert "LAUNCHER_TOKEN" not in description.get("Environment", {}) or (
        description["Environment"]["LAUNCHER_TOKEN"] == "<redacted>"
    )


@pytest.mark.long
def test_artifacts_are_downloaded(platform, tmp_path):
    script = """
import os, pathlib
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text("weights")
"""
    job = platform.run(script, tmp_path)
    copied = []
    platform.session.download(
        job.model_data, tmp_path / "model.tar.gz", lambda done, of: copied.append((done, of))
    )
    assert copied[-1][0] == (tmp_path / "model.tar.gz").stat().st_size
    with tarfile.open(tmp_path / "model.tar.gz") as archive:
        assert archive.extractfile("model.txt").read() == b"weights"


@pytest.mark.long
def test_a_job_that_fails(platform, tmp_path):
    job = platform.run("print('about to fail', flush=True)\n1 / 0", tmp_path)
    assert job.status == "Failed"
    with pytest.raises(JobFailed, match="ZeroDivisionError"):
        job.raise_for_status()
    assert "about to fail" in [line.text for line in job.logs()]


@pytest.mark.long
def test_a_job_that_is_stopped(platform, tmp_path):
    job = platform.start(WAITS, tmp_path)
    first_line(job)
    job.stop()
    job.stop()  # may be repeated
    job.wait()
    assert (job.status, job.secondary_status) == ("Stopped", "Stopped")
    job.stop()  # and changes nothing after the end
    with pytest.raises(JobStopped):
        job.raise_for_status()


@pytest.mark.long
def test_a_job_that_takes_too_long(platform, tmp_path):
    job = platform.run(WAITS, tmp_path, max_run=3)
    assert (job.status, job.secondary_status) == ("Stopped", "MaxRuntimeExceeded")


@pytest.mark.long
def test_a_job_whose_spot_instances_are_taken_back(platform, tmp_path):
    script = """
import os, pathlib, time
folder = pathlib.Path(os.environ["LAUNCHER_CHECKPOINT_DIR"])
attempt = len(list(folder.glob("*.txt"))) + 1
(folder / f"{attempt}.txt").write_text("x")
print("attempt", attempt, flush=True)
if attempt == 1:
    time.sleep(600)
"""
    places = {"checkpoint_s3_uri": platform.put("checkpoints/spot/.keep", b"").rpartition("/")[0]}
    job = platform.start(
        script, tmp_path, use_spot_instances=True, max_run=600, max_wait=900, **places
    )
    seen = []
    for line in job.logs(follow=True):
        seen.append(line.text)
        if line.text == "attempt 1":
            platform.worker.interrupt_training_job(TrainingJobName=job.name)
    assert job.status == "Completed"
    assert [text for text in seen if text.startswith("attempt")] == ["attempt 1", "attempt 2"]
    states = [change["Status"] for change in job.description()["SecondaryStatusTransitions"]]
    assert "Interrupted" in states


@pytest.mark.long
def test_many_hosts_in_two_groups(platform, tmp_path):
    script = """
import os
print(os.environ["SM_CURRENT_INSTANCE_GROUP"], os.environ["SM_CURRENT_HOST"], flush=True)
"""
    helper = InstanceGroup(
        "helpers", "ml.c5.xlarge", 3, command=["python", "train.py"], lifetime="own"
    )
    trainer = InstanceGroup("trainers", "ml.g4dn.xlarge", 3)
    job = platform.run(script, tmp_path, instance_groups=[helper, trainer])
    assert job.status == "Completed"
    lines = [line for line in job.logs() if line.text == f"{line.group} {line.host}"]
    assert len(lines) == 6
    times = [line.time for line in job.logs()]
    assert times == sorted(times)
    only = {line.host for line in job.logs(group="helpers")}
    assert only == {"algo-1", "algo-2", "algo-3"}


@pytest.mark.long
def test_channels_reach_their_groups(platform, tmp_path):
    uri = platform.put("channels/numbers.txt", b"1 2 3").rpartition("/")[0]
    script = """
import os, pathlib
print("read", pathlib.Path(os.environ["SM_CHANNEL_NUMBERS"], "numbers.txt").read_text())
"""
    job = platform.run(script, tmp_path, inputs={"numbers": TrainingInput(uri)})
    assert job.status == "Completed"
    assert "read 1 2 3" in [line.text for line in job.logs()]


def test_hyperparameters_and_environment_arrive(platform, tmp_path):
    script = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ["COLOUR"]]))
"""
    job = platform.run(
        script,
        tmp_path,
        hyperparameters={"epochs": 3, "name": 'it\'s "quoted"'},
        environment={"COLOUR": "red & blue"},
    )
    (line,) = [line.text for line in job.logs() if line.text.startswith("[[")]
    assert json.loads(line) == [["--epochs", "3", "--name", 'it\'s "quoted"'], "red & blue"]


@pytest.mark.long
def test_a_job_is_attached_by_name(platform, tmp_path):
    job = platform.run("print('here')", tmp_path, hyperparameters={"lr": 0.5})
    estimator = PyTorch.attach(job.name, sagemaker_session=platform.session)
    assert estimator.latest_training_job.status == "Completed"
    assert estimator.spec.hyperparameters == {"lr": 0.5}
    assert "here" in [line.text for line in Job(job.name, platform.session).logs()]


@pytest.mark.long
def test_jobs_are_listed_the_newest_first(platform, tmp_path):
    start = datetime.now(timezone.utc) - timedelta(seconds=1)
    names = [
        platform.run(f"exit({code})", tmp_path, base_job_name=f"listed-{code}").name
        for code in (0, 1)
    ]
    session = platform.session

    def listed(**filters):
        answer = session.list_training_jobs(NameContains="listed-", **filters)
        return [job["TrainingJobName"] for job in answer["TrainingJobSummaries"]]

    assert listed() == names[::-1]
    assert listed(StatusEquals="Failed") == names[1:]
    assert listed(limit=1) == names[1:]
    assert listed(CreationTimeAfter=start) == names[::-1]
    assert listed(CreationTimeBefore=start) == []


@pytest.mark.long
def test_a_name_is_used_once(platform, tmp_path):
    platform.run("pass", tmp_path, name="used-once")
    with pytest.raises(SpecError, match="was used for a job before"):
        platform.start("pass", tmp_path, name="used-once")


def test_a_job_that_nobody_knows(platform):
    with pytest.raises(JobNotFound):
        _ = Job("never-made", platform.session).status
    with pytest.raises(JobNotFound):
        platform.session.stop_training_job(TrainingJobName="never-made")


@pytest.mark.long
def test_a_long_log_is_read_in_pieces(platform, tmp_path):
    job = platform.run("print('\\n'.join(map(str, range(25_000))))", tmp_path)
    numbers = [line.text for line in job.logs() if line.text.isdigit()]
    assert numbers == [str(number) for number in range(25_000)]
