"""An endpoint that serves many short jobs from several clients for some time: part of `make soak`.

    python tests/kit/endpoint_load.py FOLDER CLIENT JOBS SECONDS  # one client

A client submits its jobs one after the other, spread over the time, reads each one's description,
log and artifact, and prints a line for it. A job counts its runs in a file outside of its host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

KIT = Path(__file__).parent
sys.path[:0] = [str(KIT.parents[1]), str(KIT)]

from customer import BUCKET, Customer  # noqa: E402 - found beside this file

from launcher.client.endpoint import ServedEndpoint, serve  # noqa: E402

CLIENTS = 4
UNLIMITED = {
    name: float("inf") for name in ("DescribeLogStreams", "GetLogEvents", "FilterLogEvents")
}
#: Appends a line in one write, which is whole even if two did it.
SCRIPT = """
import os
with open({runs!r}, "ab", buffering=0) as file:
    file.write({name!r}.encode() + b"\\n")
print("ran {name}", flush=True)
root = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
with open(os.path.join(root, "model", "weights"), "w") as file:
    file.write({name!r})
"""


@dataclass
class EndpointLoad:
    """Serves an endpoint and its clients while a block runs; `problems` then has what was wrong."""

    folder: Path
    jobs: int
    seconds: float
    problems: list[str] = field(default_factory=list)
    endpoint: ServedEndpoint = field(init=False)

    def __enter__(self) -> EndpointLoad:
        self._stack = ExitStack()
        # Hosts in plain processes, which can count their runs outside of themselves.
        self.endpoint = self._stack.enter_context(
            serve(self.folder / "root", rates=UNLIMITED, isolation="process")
        )
        self.endpoint.client("s3").create_bucket(Bucket=BUCKET)
        self.clients = [self._client(number) for number in range(CLIENTS)]
        return self

    def _client(self, number: int) -> subprocess.Popen[str]:
        share = [number, self.jobs // CLIENTS, self.seconds]
        command = [sys.executable, __file__, str(self.folder), *map(str, share)]
        environment = {**os.environ, **self.endpoint.environment}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def wait(self) -> None:
        """Wait for the clients; compare what they saw with what the endpoint and the jobs say."""
        printed = [client.communicate()[0].splitlines() for client in self.clients]
        wanted = {name for number in range(CLIENTS) for name in names(number, self._each)}
        for number, (client, lines) in enumerate(zip(self.clients, printed, strict=True)):
            if client.returncode != 0 or len(lines) != self._each:
                self.problems.append(
                    f"client {number} ended with {client.returncode} after {len(lines)} jobs"
                )
            self.problems += [line for line in lines if not line.endswith(": Completed")]
        runs = Counter((self.folder / "runs").read_text().split())
        pages = self.endpoint.client("sagemaker").get_paginator("list_training_jobs").paginate()
        listed = Counter(
            job["TrainingJobName"] for page in pages for job in page["TrainingJobSummaries"]
        )
        for what, count in (("ran", runs), ("is listed", listed)):
            wrong = {name: count[name] for name in wanted | set(count) if count[name] != 1}
            self.problems += [f"{name} {what} {times} times" for name, times in wrong.items()]

    @property
    def _each(self) -> int:
        return self.jobs // CLIENTS

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for client in self.clients:
            client.kill()
            client.wait()
            if client.stdout is not None:
                client.stdout.close()
        self._stack.close()


def names(client: int, jobs: int) -> list[str]:
    return [f"soak-{client}-{number}" for number in range(jobs)]


def run_client(folder: Path, number: int, jobs: int, seconds: float) -> None:
    """Run a client's jobs, each at its time or as soon as the one before has ended."""
    endpoint = ServedEndpoint(
        environment={name: value for name, value in os.environ.items() if name.startswith("AWS_")},
        process=None,  # type: ignore[arg-type]  # another process has it
    )
    customer = Customer(endpoint, folder)
    began = time.monotonic()
    for index, name in enumerate(names(number, jobs)):
        due = began + index * seconds / jobs
        time.sleep(max(0.0, due - time.monotonic()))  # the rhythm of the load
        customer.submit(name, SCRIPT.format(runs=str(folder / "runs"), name=name))
        ended = customer.end_of(name)
        said = f"ran {name}" in customer.lines(name)
        stored = ended.get("ModelArtifacts", {}).get("S3ModelArtifacts", "")
        key = stored.removeprefix(f"s3://{BUCKET}/")
        size = customer.s3.head_object(Bucket=BUCKET, Key=key)["ContentLength"] if key else 0
        is_right = said and size > 0
        status = ended["TrainingJobStatus"]
        reason = json.dumps(ended.get("FailureReason", "its log or model is missing"))
        print(f"{name}: {status if is_right else f'{status}, {reason}'}", flush=True)


if __name__ == "__main__":
    root, number, jobs, seconds = sys.argv[1:]
    run_client(Path(root), int(number), int(jobs), float(seconds))
