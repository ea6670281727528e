"""The image of a framework's version is the one that the sagemaker package names."""

from __future__ import annotations

import json
import sys

import pytest
from programs_elsewhere import run_in

from launcher.client.request import find_image, image_of
from launcher.client.sessions import place_offline
from launcher.client.spec import DataService, InstanceGroup, JobSpec, Toolkit
from launcher.errors import SpecError

WANTED = [
    ("pytorch", "2.2.0", "py310", "ml.p4d.24xlarge", "eu-west-1"),
    ("pytorch", "2.2", "py310", "ml.c5.xlarge", "us-east-1"),
    ("pytorch", "1.13.1", "py39", "ml.g4dn.xlarge", "ap-northeast-1"),
    ("pytorch", "2.2.0", None, "ml.g5.xlarge", "us-west-2"),
    ("tensorflow", "2.14", "py310", "ml.g5.xlarge", "eu-central-1"),
    ("tensorflow", "2.14", "py310", "ml.m5.large", "cn-north-1"),
]
NEITHER = [
    ("pytorch", "99.1", "py310", "ml.g5.xlarge", "us-east-1"),
    ("pytorch", "2.2.0", "py27", "ml.g5.xlarge", "us-east-1"),
    ("pytorch", "2.2.0", "py310", "ml.g5.xlarge", "moon-1"),
    ("caffe", "1.0", "py310", "ml.g5.xlarge", "us-east-1"),
]
OURS = """
import json
from launcher.errors import SpecError
from launcher.client.request.images import find_image
def ask(wanted):
    try:
        return find_image(*wanted)
    except SpecError as error:
        return str(error)
print(json.dumps([ask(wanted) for wanted in {wanted}]))
"""
THEIRS = """
import json
from {module} import retrieve
print(json.dumps([
    retrieve(f, r, version=v, py_version=p, instance_type=t, image_scope="training")
    for f, v, p, t, r in {wanted}
]))
"""


@pytest.mark.parametrize(
    ("requirement", "module"),
    [
        pytest.param(
            "sagemaker==2.257.0",
            "sagemaker.image_uris",
            marks=pytest.mark.library("sagemaker-v2"),
        ),
        pytest.param(
            "sagemaker-core==2.27.0",
            "sagemaker.core.image_uris",
            marks=pytest.mark.library("sagemaker-v3"),
        ),
    ],
    ids=["version 2", "version 3"],
)
def test_the_package_has_the_same_answer(requirement, module, tmp_path):
    ours = run_in(sys.executable, OURS.format(wanted=WANTED + NEITHER), tmp_path)
    theirs = run_in(sys.executable, THEIRS.format(wanted=WANTED, module=module), tmp_path)
    answers = json.loads(ours.stdout)  # and nothing that the package prints
    assert ours.stderr == ""
    assert answers[: len(WANTED)] == json.loads(theirs.stdout.splitlines()[-1])
    for wanted, answer in zip(NEITHER, answers[len(WANTED) :], strict=True):
        name, version = requirement.split("==")
        assert f"{name} {version} knows no image of {wanted[0]} {wanted[1]}" in answer


# A stand-in of the package, for what does not depend on its tables --------------------------------

TALKATIVE = """
import logging, sys
print("sagemaker.config INFO - not applying defaults")
print("no region config", file=sys.stderr)
logging.getLogger("sagemaker").error("a traceback")
def retrieve(
    framework, region, version, py_version, instance_type, image_scope, container_version="",
    distribution=None,
):
    print("defaulting")
    if version == "9":
        raise ValueError("Unsupported version: 9.\\n  Supported: 1")
    family = f"{framework}{container_version}"
    return f"{family}:{version}-{py_version}/{instance_type}/{region}/{image_scope}"
"""


@pytest.fixture(params=["sagemaker/core/image_uris.py", "sagemaker/image_uris.py"])
def package(request, tmp_path, monkeypatch):
    module = tmp_path / request.param
    module.parent.mkdir(parents=True)
    module.write_text(TALKATIVE)
    (tmp_path / "sagemaker" / "__init__.py").touch()
    (module.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "sagemaker"]:
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "sagemaker"]:
        del sys.modules[name]


def test_either_version_of_the_package_is_called_without_its_logs(package, capfd):
    found = find_image("pytorch", "2.2", "py310", "ml.g5.xlarge", "eu-west-1")
    assert found == "pytorch:2.2-py310/ml.g5.xlarge/eu-west-1/training"
    assert capfd.readouterr() == ("", "")


def test_the_packages_error_for_an_unknown_version_is_passed_on(package):
    with pytest.raises(SpecError, match=r"Unsupported version: 9\. Supported: 1") as refused:
        find_image("pytorch", "9", None, "ml.g5.xlarge", "eu-west-1")
    (problem,) = refused.value.problems
    assert problem.where == "framework_version"
    assert "image_uri" in problem.fix


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sagemaker", None)


def test_without_the_package_the_error_names_what_to_install(no_package):
    with pytest.raises(SpecError) as refused:
        find_image("pytorch", "2.2", "py310", "ml.g5.xlarge", "eu-west-1")
    assert "pip install 'hetero-launcher[sagemaker]', or give image_uri" in str(refused.value)


# Which of the groups decides ----------------------------------------------------------------------


def job(*groups, **fields):
    given = {"framework": "pytorch", "framework_version": "2.2", "py_version": "py310"}
    return JobSpec(entry_point="t.py", instance_groups=groups, **{**given, **fields})


CPU, GPU = InstanceGroup("data", "ml.c5.xlarge"), InstanceGroup("train", "ml.g5.xlarge")


@pytest.mark.parametrize(
    ("groups", "decides"),
    [
        pytest.param([CPU, GPU], "ml.g5.xlarge", id="the train group"),
        pytest.param([CPU], "ml.c5.xlarge", id="the only group"),
        pytest.param(
            [InstanceGroup("data", "ml.g4dn.xlarge"), InstanceGroup("train", "ml.c5.xlarge")],
            "ml.g4dn.xlarge",
            id="the only accelerators",
        ),
        pytest.param(
            [InstanceGroup("data", "ml.g4dn.xlarge"), GPU], "ml.g5.xlarge", id="train goes first"
        ),
        pytest.param(
            [CPU, InstanceGroup("train", "ml.p99.huge")], "ml.p99.huge", id="a type of tomorrow"
        ),
    ],
)
def test_the_group_that_decides_for_all(package, groups, decides):
    service = DataService(datasets=("pipeline:f",)) if len(groups) > 1 else None
    assert f"/{decides}/" in image_of(job(*groups, data_service=service), "eu-west-1")


@pytest.mark.parametrize(
    ("version", "instance_type", "family"),
    [
        ("2.5.1", "ml.p4d.24xlarge", "pytorch-smpcu124"),
        ("2.2.0", "ml.p4d.24xlarge", "pytorch-smpcu121"),
        ("2.0.1", "ml.p5.48xlarge", "pytorch-smpcu121"),
        ("2.0.1", "ml.p4d.24xlarge", "pytorch-smpcu118"),
    ],
)
def test_the_model_parallel_library_has_images_of_its_own(package, version, instance_type, family):
    strategies = {
        "smdistributed": {"modelparallel": {"enabled": True}},
        "torch_distributed": {"enabled": True},
    }
    spec = job(
        InstanceGroup("train", instance_type),
        framework_version=version,
        distribution=Toolkit(strategies=strategies),
    )
    assert image_of(spec, "eu-west-1").startswith(f"{family}:{version}-")


def test_the_package_is_told_of_the_libraries(package, monkeypatch):
    """Early versions have images of their own with them: TensorFlow 1.15 and 2.3, PyTorch 1.6."""
    strategies = {"smdistributed": {"dataparallel": {"enabled": True}}}
    asked = []
    monkeypatch.setattr(
        "launcher.client.request.images._retriever",
        lambda: lambda **given: asked.append(given) or "image:1",
    )
    image_of(job(GPU, distribution=Toolkit(strategies=strategies)), "eu-west-1")
    image_of(job(GPU), "eu-west-1")
    assert [given.get("distribution") for given in asked] == [strategies, None]


def test_the_data_parallel_library_is_in_the_frameworks_images(package):
    strategies = {
        "smdistributed": {"dataparallel": {"enabled": True}},
        "torch_distributed": {"enabled": True},
    }
    spec = job(GPU, distribution=Toolkit(strategies=strategies))
    assert image_of(spec, "eu-west-1").startswith("pytorch:2.2-")


def test_a_job_without_a_version_has_no_image_of_a_framework():
    assert image_of(job(GPU, framework_version=None), "eu-west-1") is None


def test_a_version_of_nothing_is_refused():
    with pytest.raises(SpecError, match="write framework: pytorch"):
        image_of(job(GPU, framework=None), "eu-west-1")


# Where it is used ---------------------------------------------------------------------------------

PLACES = {"role": "arn:aws:iam::111122223333:role/Training", "output_path": "s3://my-bucket/out"}


def test_a_dry_run_looks_the_image_up_without_asking_aws(package, credentials):
    placement = place_offline(job(GPU, **PLACES), "job-1")
    assert placement.image_uri == "pytorch:2.2-py310/ml.g5.xlarge/eu-west-1/training"


def test_without_a_region_there_is_no_image(package, offline):
    with pytest.raises(SpecError, match="AWS_DEFAULT_REGION"):
        place_offline(job(GPU, **PLACES), "job-1")


def test_an_image_that_is_given_is_not_looked_up(no_package, offline):
    assert (
        place_offline(
            job(GPU, image_uri="111122223333.dkr.ecr.us-west-2.amazonaws.com/i:1", **PLACES),
            "job-1",
        ).image_uri
        == "111122223333.dkr.ecr.us-west-2.amazonaws.com/i:1"
    )


def test_an_algorithm_replaces_the_image(no_package, offline):
    fields = {"framework_version": None, "algorithm_arn": "mine"}
    assert place_offline(job(GPU, **fields, **PLACES), "job-1").image_uri == "mine"
