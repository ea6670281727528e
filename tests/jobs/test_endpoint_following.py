"""Jobs of an endpoint, an AWS over HTTP: followed while it is killed, and by every verb."""

import json
import threading

import pytest
from click.testing import CliRunner
from customer import Customer

from launcher import AwsSession, Job
from launcher.client.cli import main
from launcher.client.endpoint import serve

#: Less than AWS grants: most questions are refused at first.
THROTTLED = {"DescribeTrainingJob": 3.0, "GetLogEvents": 4.0, "DescribeLogStreams": 3.0}
UNLIMITED = dict.fromkeys(THROTTLED, float("inf"))
COUNTS = """\
import pathlib, sys, time
for number in range(100_000):
    print("line", number, flush=True)
    if pathlib.Path({enough!r}).exists():
        break
    time.sleep(0.01)
"""
JOB = """\
entry_point: train.py
source_dir: .
instance_type: ml.c5.xlarge
instance_count: 2
role: LauncherLocalRole
image_uri: 123456789012.dkr.ecr.us-east-1.amazonaws.com/any:1
"""
SAVES = """\
import os
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as file:
    file.write("1 2 3")
print("saved")
"""


@pytest.fixture
def use(offline):
    """Make boto3 ask an endpoint."""

    def use(endpoint):
        for name, value in endpoint.environment.items():
            offline.setenv(name, value)

    return use


@pytest.mark.long
def test_a_follower_survives_the_death_of_the_endpoint_and_misses_no_line(tmp_path, use):
    root, enough = tmp_path / "endpoint", tmp_path / "enough"
    lines, told = [], []
    is_read = threading.Event()

    def show(line):
        lines.append(line.text)
        is_read.set()

    with serve(root, isolation="process") as first:
        use(first)
        Customer(first, root).submit("counts", COUNTS.format(enough=str(enough)))
        follower = threading.Thread(
            target=Job("counts", AwsSession()).wait, kwargs={"logs": show, "notices": told.append}
        )
        follower.start()
        assert is_read.wait(60)
        first.process.kill()
        first.process.wait()
    until(lambda: told, follower)  # else it may sleep until the platform responds again
    count = len(lines)
    with serve(root, port=first.port, isolation="process"):
        until(lambda: len(lines) > count, follower)
        enough.touch()
        follower.join(60)
        assert not follower.is_alive()
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert told[0].startswith("no response: ")
    assert told[1].startswith("the platform responds again")


def until(condition, follower):
    while not condition():
        follower.join(0.1)
        assert follower.is_alive(), "it has given up"


@pytest.fixture
def launcher(tmp_path):
    """The command line; its own jobs are elsewhere than the endpoint's."""
    (tmp_path / "train.py").write_text(SAVES)
    (tmp_path / "job.yaml").write_text(JOB)

    def launcher(*words):
        runner = CliRunner(env={"NO_COLOR": "1"})
        return runner.invoke(main, [str(word) for word in words], catch_exceptions=False)

    return launcher


@pytest.mark.long
@pytest.mark.parametrize(
    "rates",
    [
        pytest.param(UNLIMITED, id="unlimited"),
        pytest.param(THROTTLED, id="throttled", marks=pytest.mark.slow),
    ],
)
def test_every_verb_finds_a_job_that_only_sagemaker_has(tmp_path, use, launcher, rates):
    with serve(tmp_path / "endpoint", rates=rates, isolation="process") as endpoint:
        use(endpoint)
        ran = launcher("run", tmp_path / "job.yaml", "--yes", "--name", "cloud-1")
        assert ran.exit_code == 0, ran.stderr
        assert ran.stderr.count("| saved\n") == 2

        status = launcher("status", "cloud-1", "-o", "json")
        assert json.loads(status.stdout)["status"] == "Completed"
        lines = launcher("logs", "cloud-1", "--host", "algo-2").stdout.splitlines()
        assert "homogeneousCluster/algo-2 | saved" in lines
        assert not any("algo-1 |" in line for line in lines)
        listed = launcher("list", "--cloud", "--since", "1h", "--limit", "1", "-o", "json").stdout
        assert [job["name"] for job in json.loads(listed)["jobs"]] == ["cloud-1"]
        assert launcher("list").stdout == ""

        fetched = launcher("download", "cloud-1", "--to", tmp_path / "results")
        assert fetched.stdout == f"{tmp_path}/results/model.tar.gz\n"
        assert (tmp_path / "results" / "model.tar.gz").stat().st_size > 0
        stopped = launcher("stop", "cloud-1", "--cloud")
        assert "has already ended: Completed" in stopped.stderr

        absent = launcher("status", "cloud-2")
        assert absent.exit_code == 2
        assert "there is no local job 'cloud-2'" in absent.stderr
        assert "nor does SageMaker in us-east-1 have it" in absent.stderr


def test_without_a_region_only_this_machine_is_asked(launcher, offline):
    absent = launcher("status", "cloud-1")
    assert absent.exit_code == 2
    assert "SageMaker was not asked: no AWS region is configured" in absent.stderr
