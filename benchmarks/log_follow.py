"""How fast, and in how much memory, the logs of many hosts are followed through CloudWatch.

    python benchmarks/log_follow.py                      20,000 and 200,000 lines of 300 hosts

moto's CloudWatch serves real HTTP in this process, which also writes: most lines are there before
somebody follows, the rest is written meanwhile. A process of its own follows and checks the lines.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3

from launcher import Job
from launcher.client.sessions import GROUP, AwsSession

JOB = "many-hosts"
HOSTS = 300
#: moto shows a line at once; the time that a writer needs to get it there.
DELAY_SECONDS = 4.0
_BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What a follower saw: its lines, the seconds to the last one, and its largest memory."""

    lines: int
    seconds: float
    peak_mib: float


class LogsOfMany(AwsSession):
    """CloudWatch's logs of a job that is Completed once the file `done` is there."""

    log_delay_seconds = DELAY_SECONDS  # type: ignore[assignment]  # a property there
    poll_seconds = 0.5  # type: ignore[assignment]  # as above

    def __init__(self, hosts: int, done: Path) -> None:
        super().__init__("us-east-1")
        self._hosts = hosts
        self._done = done
        self._created = datetime.now(timezone.utc)

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803 (AWS)
        word = "Completed" if self._done.exists() else "InProgress"
        return {
            "TrainingJobName": TrainingJobName,
            "TrainingJobStatus": word,
            "SecondaryStatus": word,
            "CreationTime": self._created,
            "LastModifiedTime": datetime.now(timezone.utc),
            "SecondaryStatusTransitions": [{"Status": word, "StartTime": self._created}],
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": self._hosts},
        }


class Writers:
    """The hosts: each numbers its lines."""

    def __init__(self, hosts: int, endpoint: str) -> None:
        self._logs = boto3.client("logs", "us-east-1", endpoint_url=endpoint)
        self._logs.create_log_group(logGroupName=GROUP)
        self._hosts = hosts
        self._written = [0] * hosts
        self._streams: set[str] = set()

    def write(self, lines: int, *, attempt: int = 1) -> None:
        """So many lines of each host, in a stream of its own for each attempt."""
        for host in range(self._hosts):
            stream = f"{JOB}/algo-{host + 1}-{attempt}"
            if stream not in self._streams:
                self._logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
                self._streams.add(stream)
            for start in range(0, lines, _BATCH):
                self._put(host, stream, min(_BATCH, lines - start))

    def _put(self, host: int, stream: str, count: int) -> None:
        first = self._written[host]
        now = int(time.time() * 1000)
        events = [
            {"timestamp": now, "message": f"line {number} of this host, as long as most are"}
            for number in range(first, first + count)
        ]
        self._logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)
        self._written[host] += count


def follow(hosts: int, done: Path) -> Followed:
    """Follow to the end; AssertionError for a line that is lost, repeated or out of order."""
    job = Job(JOB, LogsOfMany(hosts, done))
    expected: dict[str, int] = {}
    lines, newest, started, last = 0, 0.0, time.monotonic(), 0.0
    for line in job.logs(follow=True):
        number = int(line.text.split()[1])
        assert number == expected.get(line.host, 0), (line, expected.get(line.host, 0))
        assert line.time >= newest, (line, newest)
        expected[line.host], newest = number + 1, line.time
        lines, last = lines + 1, time.monotonic()
    return Followed(lines=lines, seconds=last - started, peak_mib=peak_mib())


def peak_mib() -> float:
    """The largest memory of this process. Not getrusage: that counts the parent before exec too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


@contextmanager
def cloudwatch() -> Iterator[str]:
    """An empty CloudWatch of moto's on the loopback: its address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        address = f"http://{host}:{port}"
        reset = urllib.request.Request(f"{address}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset, timeout=30).close()  # moto's memory is the process's
        yield address
    finally:
        server.stop()


def environment(endpoint: str) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    return {**os.environ, **keys, "AWS_ENDPOINT_URL": endpoint}


def measure(hosts: int, lines: int, live_rounds: int = 3) -> Followed:
    """Follow about so many lines of all hosts together, a tenth of them while they are written.

    Before the last round all hosts are restarted, as those of spot instances are.
    """
    each = lines // hosts
    live = max(1, each // 10 // live_rounds)
    with (
        cloudwatch() as endpoint,
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, environment(endpoint)),
    ):
        writers = Writers(hosts, endpoint)
        writers.write(each - live * live_rounds)
        done = Path(folder, "done")
        command = [sys.executable, __file__, "--follow", str(done), "--hosts", str(hosts)]
        follower = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(endpoint))
        try:
            for number in range(live_rounds):
                writers.write(live, attempt=2 if number == live_rounds - 1 else 1)
            done.touch()
            answer, _ = follower.communicate(timeout=900)
        finally:
            follower.kill()
    return Followed(**json.loads(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--lines", type=int, nargs="*", default=[20_000, 200_000])
    parser.add_argument("--follow", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        print(json.dumps(vars(follow(options.hosts, options.follow))))
        return
    print("| hosts | lines | lines/s | peak memory, MiB |\n|---|---|---|---|")
    for lines in options.lines:
        seen = measure(options.hosts, lines)
        rate = seen.lines / seen.seconds
        print(f"| {options.hosts} | {seen.lines} | {rate:.0f} | {seen.peak_mib:.0f} |", flush=True)


if __name__ == "__main__":
    main()
