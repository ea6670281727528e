"""A process that runs clients of the command line, each in a fork: imports are paid once.

Reads one JSON object a line: {"id", "words", "environment", "output"}; writes {"id", "code", "at"}.
All waits and limits of time are divided by the first argument.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from typing import Any

import boto3

from launcher.client.cli import main
from launcher.client.jobs import background_log, job, job_follower, retrying_session
from launcher.client.sessions import RetryPolicy, job_record
from launcher.client.sessions.aws import (
    aws_session,
    call_limits,
    caller_identity,
    clients,
    cloudwatch_logs,
    s3_storage,
    sagemaker_jobs,
    transient_errors,
)

#: The seconds of each module, by name.
SECONDS = {
    background_log: ("_FIRST_PAUSE_SECONDS", "_LONGEST_PAUSE_SECONDS", "_CLOSE_SECONDS"),
    job: ("_OUTCOME_SECONDS",),
    job_follower: ("_LAST_SECONDS", "_LATE_SECONDS", "IDLE_SECONDS"),
    retrying_session: ("_FIRST_PAUSE_SECONDS", "_LONGEST_PAUSE_SECONDS", "DENIAL_POLICY"),
    call_limits: ("CALL_SECONDS",),
    clients: ("_CONNECT_SECONDS", "_READ_SECONDS", "_S3_READ_SECONDS"),
    cloudwatch_logs: ("_THROTTLED_POLICY",),
    caller_identity: ("_RETRY_POLICY",),
    transient_errors: ("READ_POLICY",),
    sagemaker_jobs: ("READ_POLICY",),
}


def divided(value: Any, by: float) -> Any:
    if isinstance(value, RetryPolicy):
        return RetryPolicy(
            seconds=value.seconds / by, first=value.first / by, longest=value.longest / by
        )
    return value / by


def hurry(by: float) -> None:
    for module, names in SECONDS.items():
        for name in names:
            setattr(module, name, divided(getattr(module, name), by))
    sagemaker_jobs.Creation.run.__defaults__ = (divided(sagemaker_jobs._RETRY_POLICY, by),)
    # Half an hour without an answer about a job would be waited for by many sequences.
    job.Job.__init__.__kwdefaults__["give_up_seconds"] = job.GIVE_UP_SECONDS / 10 / by
    # Those of AWS itself: an endpoint of this machine has shorter ones.
    aws_session.AwsSession.poll_seconds = 5.0 / by
    aws_session.AwsSession.log_delay_seconds = cloudwatch_logs.DELAY_SECONDS / by
    clients._ATTEMPTS = {"s3": 2}
    job_record._installed_packages = lambda: ()


def warm() -> None:
    """Read the models of the services once, for all forks."""
    session = boto3.Session("AKIA", "secret", region_name="us-east-1")
    for service in ("sagemaker", "logs", "sts", "s3", "iam", "cloudwatch"):
        session.client(service)
    loader = session._session.get_component("data_loader")
    create = boto3.Session

    def shared(*arguments: Any, **options: Any) -> Any:
        made = create(*arguments, **options)
        made._session.register_component("data_loader", loader)
        return made

    boto3.Session = shared
    assert s3_storage  # imported before the forks


def run(order: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    os.environ.update(order["environment"])
    for number, name in (
        (0, os.devnull),
        (1, f"{order['output']}.out"),
        (2, f"{order['output']}.err"),
    ):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
    code = 70
    try:
        main(order["words"], prog_name="launcher")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:  # noqa: BLE001 (told by the exit code)
        print(f"a traceback: {type(error).__name__}: {error}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve() -> None:
    hurry(float(sys.argv[1]))
    warm()
    running: dict[int, int] = {}
    print("ready", flush=True)
    while True:
        if select.select([sys.stdin.fileno()], [], [], 0.02 if running else None)[0]:
            line = sys.stdin.buffer.raw.readline()
            if not line:
                return
            order = json.loads(line)
            running[run(order)] = order["id"]
        for child in list(running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                told = {"id": running.pop(child), "code": code, "at": time.time()}
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    serve()
