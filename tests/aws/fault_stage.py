"""A stage for faults: verbs of the command line against moto, behind the front, without pauses."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import botocore.endpoint
from click.testing import CliRunner, Result

from launcher.client.cli import main
from launcher.client.jobs import Job, background_log, job_follower, retrying_session
from launcher.client.request import bundle
from launcher.client.sessions import RetryPolicy, job_record
from launcher.client.sessions.aws import (
    aws_session,
    caller_identity,
    clients,
    cloudwatch_logs,
    sagemaker_jobs,
    transient_errors,
)

BUCKET = "of-the-team"
GROUP = "/aws/sagemaker/TrainingJobs"
LINES = ["begun", "step 1", "step 2", "done"]
MODEL = b"a model, packed"
REASON = "AlgorithmError: the script has raised"
#: Ends of a job, and the exit code of each.
TRUTHS = {"Completed": 0, "Failed": 1}
JOB = f"""\
entry_point: train.py
source_dir: .
instance_type: ml.m5.large
instance_count: 1
role: arn:aws:iam::123456789012:role/Training
image_uri: 123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:1
output_path: s3://{BUCKET}/out
"""
_HURRIED = RetryPolicy(seconds=0.3, first=0.01, longest=0.05)


def hurry(patch: Any) -> None:
    """Shorten every pause and limit of time; their order stays as it is."""
    patch.setattr(transient_errors, "READ_POLICY", _HURRIED)
    patch.setattr(sagemaker_jobs, "READ_POLICY", _HURRIED)
    patch.setattr(cloudwatch_logs, "_THROTTLED_POLICY", _HURRIED)
    patch.setattr(caller_identity, "_RETRY_POLICY", _HURRIED)
    patch.setattr(sagemaker_jobs.Creation.run, "__defaults__", (_HURRIED,))
    patch.setattr(retrying_session, "_FIRST_PAUSE_SECONDS", 0.01)
    patch.setattr(retrying_session, "DENIAL_POLICY", _HURRIED)
    patch.setattr(background_log, "_FIRST_PAUSE_SECONDS", 0.01)
    patch.setattr(job_follower, "_LAST_SECONDS", 5.0)
    patch.setitem(Job.__init__.__kwdefaults__, "give_up_seconds", 0.5)
    patch.setattr(aws_session.AwsSession, "poll_seconds", 0.02)
    patch.setattr(aws_session.AwsSession, "log_delay_seconds", 0.02)
    patch.setattr(bundle, "job_world", lambda: iter(()))  # no host unpacks it
    patch.setattr(job_record, "_installed_packages", lambda: ())
    clock = SimpleNamespace(sleep=lambda _seconds: None, time=time.time)
    patch.setattr(botocore.endpoint, "time", clock)  # its pauses between attempts at S3


@dataclass
class Stage:
    """front: between AwsSession and moto; past: clients that do not pass it."""

    front: Any
    past: Any
    folder: Path

    def __post_init__(self) -> None:
        self.ended = ""
        self._names = (f"ring-{number:05d}" for number in itertools.count())
        self.front.lacking = frozenset({"StopTrainingJob"})
        (self.folder / "train.py").write_text("print('hello')\n")
        (self.folder / "job.yaml").write_text(JOB)
        self.past("s3").create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        self.past("logs").create_log_group(logGroupName=GROUP)

    def new_name(self) -> str:
        """A name whose job, once there is one, has printed its lines."""
        name = next(self._names)
        logs, stream = self.past("logs"), f"{name}/algo-1-1"
        logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
        start = int(time.time() * 1000) - 60_000
        events = [
            {"timestamp": start + number, "message": line} for number, line in enumerate(LINES)
        ]
        logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)
        return name

    def add_ended_job(self) -> None:
        """Run a job, which has its lines and its model then."""
        name = self.ended = self.new_name()
        self.front.rewrite = None
        done = self.run("run", str(self.folder), "--yes", "--detach", "--name", name)
        assert done.exit_code == 0, done.stderr
        sagemaker = self.past("sagemaker")
        model = sagemaker.describe_training_job(TrainingJobName=name)["ModelArtifacts"]
        bucket, _, key = model["S3ModelArtifacts"].removeprefix("s3://").partition("/")
        self.past("s3").put_object(Bucket=bucket, Key=key, Body=MODEL)

    def jobs(self, name: str) -> list[str]:
        """The jobs that moto has of a name, or of one that begins with it."""
        found = self.past("sagemaker").list_training_jobs(NameContains=name)
        return [job["TrainingJobName"] for job in found["TrainingJobSummaries"]]

    def live(self, truth: str, polls: int) -> None:
        """Let jobs run for so many descriptions, and end so."""
        left = itertools.chain(itertools.repeat("InProgress", polls), itertools.repeat(truth))

        def rewrite(call: Any, answer: Any) -> Any:
            status, headers, content = answer
            if call.operation != "DescribeTrainingJob" or status >= 300:
                return answer
            now = next(left)
            fields = {**json.loads(content), "TrainingJobStatus": now, "FailureReason": REASON}
            fields["SecondaryStatus"] = "Training" if now == "InProgress" else now
            if now != "Failed":
                del fields["FailureReason"]
            return status, headers, json.dumps(fields).encode()

        self.front.rewrite = rewrite

    def run(self, *words: str) -> Result:
        """Run a verb in this process."""
        return CliRunner(env={"NO_COLOR": "1"}).invoke(main, list(words))


def share_clients(patch: Any, session: Any) -> None:
    """Let all sessions use the same clients, which give up soon; one is slower than a verb."""
    patch.setattr(clients, "_READ_SECONDS", 8)
    patch.setattr(clients, "_S3_READ_SECONDS", 8)
    patch.setattr(clients, "_ATTEMPTS", {"s3": 2})
    patch.setattr(boto3, "Session", lambda **_options: session)
    create, made = clients.Clients._create, {}

    def shared(self: Any, service: str) -> Any:
        if service not in made:
            made[service] = create(self, service)
        return made[service]

    patch.setattr(clients.Clients, "_create", shared)
