"""Programs for SageMaker that know nothing of Launcher, run as they are in isolation `network`.

aws_style/ has a server of prepared batches on a fixed port of every data host, a client that reads
from all of them, and a shutdown port on every data host; all paths and ports are written in.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, channel, group

PROGRAMS = Path(__file__).parent / "aws_style"
IMAGES = {f"image-{number:02}": bytes([number] * 100) for number in range(48)}
BATCH_SIZE = 4
FEED_PORT = 6000  # written into the programs


def run(bench: Bench, *, train_hosts: int) -> dict[str, Any]:
    """The description of the finished job."""
    images = bench.folder / "images"
    images.mkdir()
    for name, pixels in IMAGES.items():
        (images / name).write_bytes(pixels)
    request = bench.request(
        "",
        groups=[group("data_group", 2), group("dnn_group", train_hosts)],
        channels=[channel("images", f"file://{images}")],
        HyperParameters={"batch-size": str(BATCH_SIZE)},
    )
    shutil.copytree(PROGRAMS, bench.folder / "code" / "job", dirs_exist_ok=True)
    algorithm = request["AlgorithmSpecification"]
    algorithm["ContainerEntrypoint"] = ["python3", "/opt/ml/input/data/code/start.py"]
    bench.session.create_training_job(**request)
    return bench.end_of()


@pytest.mark.long
@pytest.mark.parametrize("train_hosts", [1, 2])
def test_every_batch_of_every_data_host_is_trained_on_once(
    network_bench: Bench, train_hosts: int
) -> None:
    description = run(network_bench, train_hosts=train_hosts)
    lines = network_bench.lines()
    assert description["TrainingJobStatus"] == "Completed", lines
    said = [text for host in list(lines)[2:] for text in lines[host]]
    results = [json.loads(text) for text in said if text.startswith("{")]
    assert len(results) == train_hosts
    assert {result["interface"] for result in results} == {"eth0"}

    trained_on = [image for result in results for image in result["images"]]
    assert sorted(trained_on) == sorted(IMAGES)
    assert sum(r["light"] for r in results) == sum(255 * 100 - sum(p) for p in IMAGES.values())
    for host in ("algo-1", "algo-2"):
        served = sum(result["batches"].get(host, 0) for result in results)
        assert served == len(IMAGES) / 2 / BATCH_SIZE
        assert lines[host] == [
            "serving 24 images on port 6000",
            f"shut down after {train_hosts} clients",
        ]

    model = network_bench.folder / "model.tar.gz"
    uri = description["ModelArtifacts"]["S3ModelArtifacts"]
    network_bench.session.download(uri, model)
    with tarfile.open(model) as tar:
        assert len(tar.getnames()) == train_hosts


@pytest.fixture
def _feed_port_taken() -> Iterator[None]:
    """On the machine's own network stack, by this socket or by another program."""
    with socket.socket() as taken:
        with contextlib.suppress(OSError):
            taken.bind(("", FEED_PORT))
        yield


@pytest.mark.long
@pytest.mark.usefixtures("_feed_port_taken")
def test_a_port_taken_on_the_machine_is_taken_from_hosts_without_a_network_of_their_own(
    sandbox_bench: Bench,
) -> None:
    description = run(sandbox_bench, train_hosts=1)
    assert description["TrainingJobStatus"] == "Failed"
    data_hosts = [text for host in ("algo-1", "algo-2") for text in sandbox_bench.lines()[host]]
    assert any("Address already in use" in text for text in data_hosts)


@pytest.mark.long
@pytest.mark.usefixtures("_feed_port_taken")
def test_hosts_with_a_network_of_their_own_have_every_port_of_it(network_bench: Bench) -> None:
    description = run(network_bench, train_hosts=1)
    assert description["TrainingJobStatus"] == "Completed", network_bench.lines()
