"""Benches for real local jobs, in each isolation that works here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import Bench
from cloud import Cloud
from needs import skip_without_isolation

from launcher.client.sessions import choose_isolation


@pytest.fixture(autouse=True)
def no_credentials(offline: pytest.MonkeyPatch) -> None:
    """Whoever runs these tests, boto3 finds no AWS credentials of theirs."""


#: Network is the sandbox with a network stack for each host, of which test_local_network has tests.
ISOLATIONS = [
    pytest.param("process", marks=pytest.mark.long),
    "sandbox",
    pytest.param("network", marks=pytest.mark.slow),
    pytest.param("container", marks=pytest.mark.library("containers")),
]


@pytest.fixture(params=ISOLATIONS)
def isolation(request: pytest.FixtureRequest) -> str:
    skip_without_isolation(request.param)
    return str(request.param)


@pytest.fixture
def bench(tmp_path: Path, isolation: str) -> Iterator[Bench]:
    """A bench in each isolation."""
    yield from _with_clean_end(Bench(tmp_path, isolation))


@pytest.fixture
def s3_bench(tmp_path: Path, isolation: str, cloud: Cloud) -> Iterator[Bench]:
    """A bench in each isolation whose jobs find S3."""
    yield from _with_clean_end(Bench(tmp_path, isolation, platform_environment=cloud.environment))


@pytest.fixture
def plain_s3_bench(tmp_path: Path, cloud: Cloud) -> Iterator[Bench]:
    yield from _with_clean_end(Bench(tmp_path, "process", platform_environment=cloud.environment))


@pytest.fixture
def impatient(tmp_path: Path, isolation: str) -> Iterator[Bench]:
    """A bench in each isolation whose grace period is one second."""
    yield from _with_clean_end(Bench(tmp_path, isolation, grace=1.0))


@pytest.fixture
def plain_bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench for what does not depend on the isolation."""
    yield from _with_clean_end(Bench(tmp_path, "process"))


@pytest.fixture
def default_bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench in the isolation that a session chooses here, for what all of them do alike.

    It is asked for by name: a job whose isolation was not has a note where no sandbox works.
    """
    yield from _with_clean_end(Bench(tmp_path, choose_isolation(None).value))


@pytest.fixture
def sandbox_bench(tmp_path: Path) -> Iterator[Bench]:
    skip_without_isolation("sandbox")
    yield from _with_clean_end(Bench(tmp_path, "sandbox"))


@pytest.fixture
def network_works() -> None:
    skip_without_isolation("network")


@pytest.fixture
def network_bench(tmp_path: Path, network_works: None) -> Iterator[Bench]:
    yield from _with_clean_end(Bench(tmp_path, "network"))


@pytest.fixture(scope="module")
def server() -> Iterator[Cloud]:
    server = Cloud()
    yield server
    server.go_away()


@pytest.fixture
def cloud(server: Cloud) -> Iterator[Cloud]:
    """An empty bucket at first and at last."""
    yield server
    keys = [{"Key": key} for key in server.objects("")] or [{"Key": "none"}]
    server.client.delete_objects(Bucket="bucket", Delete={"Objects": keys})


def _with_clean_end(bench: Bench) -> Iterator[Bench]:
    """A test that fails leaves no job behind."""
    yield bench
    names = [
        job["TrainingJobName"] for job in bench.session.list_training_jobs()["TrainingJobSummaries"]
    ]
    for name in names:
        bench.stop(name)
    for name in names:
        bench.end_of(name)
