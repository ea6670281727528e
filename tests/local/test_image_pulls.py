"""A job's image is pulled where it is not present, or the job says why not and what to do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import Bench
from click.testing import CliRunner
from containers import ENGINE
from fake_engine import FakeEngine
from registry import Registry, serve_images
from small_disk import small_disk
from waiting import wait_until

from launcher.client.cli import main
from launcher.client.sessions import LocalSession

real = pytest.mark.library("containers")


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    with serve_images(tmp_path) as (registry, variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield registry
        for image in {path.split("/")[2] for path in registry.files}:
            subprocess.run(
                [ENGINE, "rmi", "--force", registry.name(image)], capture_output=True, check=False
            )


@pytest.fixture
def bench(tmp_path: Path, plain_bench: Bench) -> Bench:
    plain_bench.session = LocalSession(tmp_path / "home", "container", engine=ENGINE)
    return plain_bench


def start(bench: Bench, image: str) -> None:
    request = bench.request("pass")
    request["AlgorithmSpecification"]["TrainingImage"] = image
    bench.session.create_training_job(**request)


def reason_of(bench: Bench, image: str) -> str:
    start(bench, image)
    return str(bench.end_of()["FailureReason"])


@real
def test_an_image_is_pulled_and_its_digest_kept(
    bench: Bench, registry: Registry, offline: pytest.MonkeyPatch
) -> None:
    digest = registry.add("own")
    assert "container did not start" in reason_of(bench, registry.name("own"))  # it has no Python
    image = {"Name": registry.name("own"), "Digest": digest}
    assert bench.describe()["LocalImage"] == image
    offline.setenv("LAUNCHER_HOME", str(bench.session.root))
    shown = CliRunner().invoke(main, ["status", "job", "-o", "json"])
    assert json.loads(shown.stdout)["image"] == image


@real
@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("absent", ["its registry has no such image", "fix: correct its name or tag"]),
        ("denied", ["its registry does not let you pull it", f"fix: log in ({ENGINE} login 127."]),
        (
            "arm",
            ["is for linux/arm64, and this machine is linux/", "docker build --platform linux"],
        ),
        ("arms", ["it is not made for linux/", "docker build --platform linux"]),
    ],
)
def test_an_image_that_cannot_be_had_has_its_reason_and_its_mend(
    bench: Bench, registry: Registry, image: str, words: list[str]
) -> None:
    registry.add("arm", architecture="arm64")
    registry.add("arms", architecture="arm64", is_index=True)
    reason = reason_of(bench, registry.name(image))
    for each in words:
        assert each in reason, reason


@real
def test_a_registry_that_does_not_answer_is_named(bench: Bench) -> None:
    reason = reason_of(bench, "127.0.0.1:9/own:1")
    assert "its registry does not answer" in reason
    assert f"make it present ({ENGINE}" in reason.replace("/usr/bin/", "")


@real
def test_a_disk_without_space_is_named(
    bench: Bench, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add("large", size=4_000_000)
    with small_disk(tmp_path / "small", "1m") as small:
        monkeypatch.setenv("TMPDIR", str(small))  # where Podman puts what it downloads
        reason = reason_of(bench, registry.name("large"))
    assert "no space is left for it" in reason
    assert f"{ENGINE} system df" in reason


@real
def test_a_job_is_stopped_while_its_image_is_pulled(bench: Bench, registry: Registry) -> None:
    registry.add("slow", size=100_000)
    start(bench, registry.name("slow"))
    shown = f"Pulling {registry.name('slow')}"
    wait_until(
        lambda: bench.describe()["SecondaryStatusTransitions"][-1]["StatusMessage"].startswith(
            shown + ": "
        )
    )
    bench.session.stop_training_job(TrainingJobName="job")
    assert bench.end_of()["TrainingJobStatus"] == "Stopped"


def test_ecr_is_logged_in_to_without_a_word_on_a_command_line(
    tmp_path: Path, aws: object, plain_bench: Bench
) -> None:
    """By boto3's token, with the engine's --password-stdin."""
    registry = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
    pull = ("pull", 1, "Error: unauthorized: no")
    engine = FakeEngine(tmp_path / "bin", present=False, answers=[pull])
    plain_bench.session = LocalSession(tmp_path / "home", "container", engine=str(engine.program))
    reason = reason_of(plain_bench, f"{registry}/own:1")
    (words,) = engine.calls("login")
    assert words == ["login", "--username", "AWS", "--password-stdin", registry]
    password = engine.password
    assert password == "123456789012-auth-token"
    assert password not in str(engine.calls("pull"))
    assert "aws ecr get-login-password --region eu-west-1 | podman login" in reason
    kept = [path for path in plain_bench.session.root.rglob("*") if path.is_file()]
    assert not [path for path in kept if password.encode() in path.read_bytes()]
