"""An image whose Python is known to be too old for Launcher is refused before anything is sent."""

from __future__ import annotations

import pytest

from launcher import MemorySession, PyTorch, SpecError
from launcher.client.request import image_python, registry_problems
from launcher.client.sessions import place, place_offline
from launcher.client.spec import JobSpec, Toolkit

AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
OWN = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"
OLD = f"{AWS}/pytorch-training:1.13.1-gpu-py39"
PLACES = {"role": "arn:aws:iam::111122223333:role/Training", "output_path": "s3://my-bucket/out"}


@pytest.mark.parametrize(
    ("image", "python"),
    [
        (f"{AWS}/pytorch-training:2.2.0-gpu-py310", (3, 10)),
        (f"{AWS}/pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker", (3, 12)),
        (OLD, (3, 9)),
        (f"{AWS}/pytorch-training:1.4.0-gpu-py3", (3, 6)),
        (f"{AWS}/pytorch-training:1.4.0-gpu-py2", (2, 7)),
        (f"{AWS}/tensorflow-training:2.9.1-cpu-py39", (3, 9)),
        (f"{AWS}/sagemaker-pytorch:1.0.0-gpu-py36", (3, 6)),
        (
            f"{AWS}/huggingface-pytorch-training:1.13.1-transformers4.26.0-gpu-py39-cu117",
            (3, 9),
        ),
        (f"{AWS}/huggingface-pytorch-trcomp-training:1.9.0-transformers4.11.0-gpu-py38", (3, 8)),
        (f"{AWS}/sagemaker-scikit-learn:1.2-1-cpu-py3", (3, 9)),
        (f"{AWS}/sagemaker-scikit-learn:0.23-1-cpu-py3", (3, 7)),
        (f"{AWS}/sagemaker-scikit-learn:1.4-2-cpu-py3", None),
        (f"{AWS}/sagemaker-xgboost:1.5-1", (3, 8)),
        (f"{AWS}/sagemaker-xgboost:3.0-5", None),
        (f"{AWS}/pytorch-training@sha256:{'a' * 64}", None),
        (f"{AWS}/pytorch-training:latest", None),
        ("registry:5000/mine:py38", None),
        ("mine", None),
        ("", None),
    ],
)
def test_an_images_name_shows_its_python(image, python):
    assert image_python(image) == python


def job(tmp_path, **changes):
    (tmp_path / "train.py").write_text("print('hello')\n")
    given = {"image_uri": OLD, "instance_type": "ml.g5.xlarge", **PLACES, **changes}
    return JobSpec(entry_point="train.py", source_dir=str(tmp_path), **given)


@pytest.mark.parametrize(
    "put",
    [
        pytest.param(lambda spec: place_offline(spec, "job-1"), id="dry run"),
        pytest.param(lambda spec: place(spec, MemorySession(), "job-1"), id="session"),
    ],
)
def test_an_old_image_is_refused_with_what_it_has(tmp_path, put):
    with pytest.raises(SpecError, match=r"gpu-py39 has Python 3\.9, and Launcher starts in 3\.10"):
        put(job(tmp_path))
    assert put(job(tmp_path, image_uri=OLD.replace("py39", "py310"))).image_uri.endswith("py310")


def test_what_starts_without_launcher_may_have_any_python(tmp_path):
    strategies = {"smdistributed": {"dataparallel": {"enabled": True}}}
    for spec in (
        job(tmp_path, distribution=Toolkit(strategies=strategies)),
        JobSpec(image_uri=OLD, instance_type="ml.g5.xlarge", **PLACES),
    ):
        assert place_offline(spec, "job-1").image_uri == OLD


@pytest.mark.long
def test_a_host_of_this_machine_uses_no_image(tmp_path, monkeypatch):
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    made = PyTorch("train.py", image_uri=OLD, instance_type="ml.g5.xlarge", instance_count=1)
    assert made.fit(logs=False, local=True).status == "Completed"


@pytest.mark.long
def test_the_version_of_a_framework_is_named_as_its_place(tmp_path, credentials, monkeypatch):
    """Of an image that is looked up, by a package whose answer stands for AWS's table."""
    monkeypatch.setattr("launcher.client.request.images._retriever", lambda: lambda **_given: OLD)
    versions = {"framework": "pytorch", "framework_version": "1.13", "py_version": "py39"}
    with pytest.raises(SpecError) as refused:
        place_offline(job(tmp_path, image_uri=None, **versions), "job-1")
    assert [problem.where for problem in refused.value.problems] == ["framework_version"]


# The registry ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "region", "is_taken"),
    [
        (OWN, "us-east-1", True),
        (OWN, "", True),  # of any region, while none is configured
        (OWN, "eu-west-1", False),
        (OWN.replace(":1", f"@sha256:{'a' * 64}"), "us-east-1", True),
        ("111122223333.dkr.ecr-fips.us-gov-west-1.amazonaws.com/a/b:1", "us-gov-west-1", True),
        ("111122223333.dkr.ecr.cn-north-1.amazonaws.com.cn/mine:1", "cn-north-1", True),
        ("111122223333.dkr-ecr.us-east-1.on.aws/mine:1", "us-east-1", True),
        ("public.ecr.aws/bitnami/python:3.11", "us-east-1", False),
        ("pytorch/pytorch:latest", "us-east-1", False),
        ("ghcr.io/x/y:1", "", False),
        ("1111.dkr.ecr.us-east-1.amazonaws.com/mine:1", "us-east-1", False),
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com", "us-east-1", False),
    ],
)
def test_sagemaker_takes_images_of_ecr_in_its_region(image, region, is_taken, tmp_path):
    found = registry_problems(job(tmp_path, image_uri=image), region)
    assert [problem.where for problem in found] == ([] if is_taken else ["image_uri"])


def test_a_registry_of_the_vpc_may_be_anywhere(tmp_path):
    spec = job(tmp_path, image_uri="ghcr.io/x/y:1", training_repository_access_mode="Vpc")
    assert registry_problems(spec, "us-east-1") == []


def test_the_region_is_the_configured_one(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("")
    made = PyTorch(
        "train.py",
        source_dir=str(tmp_path),
        image_uri=OWN,
        instance_type="ml.m5.large",
        instance_count=1,
        **PLACES,
    )
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert made.request("job-1")["AlgorithmSpecification"]["TrainingImage"] == OWN
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with pytest.raises(
        SpecError, match=r"takes images of Amazon ECR in eu-west-1, and .* us-east-1"
    ):
        made.request("job-1")


def test_a_job_of_this_machine_needs_no_image_of_ecr(tmp_path):
    assert place(job(tmp_path, image_uri="mine:1"), MemorySession(), "job-1").image_uri == "mine:1"
