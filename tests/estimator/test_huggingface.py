"""HuggingFace: an Estimator whose image has a version of transformers."""

from __future__ import annotations

import inspect
import json
import sys

import pytest
from programs_elsewhere import run_in

from launcher import HuggingFace, JobSpec, SpecError
from launcher.client.request import IMAGES, image_of, known_huggingface_image

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
OWN = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"
PLACES = {
    "role": "arn:aws:iam::111122223333:role/Training",
    "output_path": "s3://my-bucket/output",
    "instance_type": "ml.g5.xlarge",
    "instance_count": 1,
}
#: Of SDK v2 2.257.0, without its training compiler.
ARGUMENTS = """py_version entry_point transformers_version tensorflow_version pytorch_version
    source_dir hyperparameters image_uri distribution"""


@pytest.fixture
def script(tmp_path, credentials, monkeypatch):
    """A script, and no package that knows images."""
    credentials.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setitem(sys.modules, "sagemaker", None)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return str(tmp_path / "train.py")


def test_the_arguments_have_sdk_v2s_order():
    assert list(inspect.signature(HuggingFace).parameters)[:9] == ARGUMENTS.split()


def test_the_image_has_the_version_of_transformers(script):
    made = HuggingFace(
        "py310", script, transformers_version="4.36", pytorch_version="2.1", **PLACES
    )
    image = made.request()["AlgorithmSpecification"]["TrainingImage"]
    name = "huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04"
    assert image == f"{REGISTRY}/{name}"
    assert (made.transformers_version, made.pytorch_version) == ("4.36", "2.1")
    assert made.tensorflow_version is None
    assert JobSpec.from_yaml(made.to_yaml()) == made.spec


def test_an_image_that_is_given_is_the_image(script):
    made = HuggingFace(entry_point=script, image_uri=OWN, **PLACES)
    assert made.request()["AlgorithmSpecification"]["TrainingImage"] == OWN


@pytest.mark.long
def test_it_runs_here_without_versions(script, monkeypatch, tmp_path):
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    made = HuggingFace("py310", script, instance_type="local", instance_count=1)
    assert made.fit(logs=False).status == "Completed"
    again = HuggingFace.attach(made.latest_training_job)
    assert again.latest_training_job.name == made.latest_training_job.name


@pytest.mark.parametrize(
    ("versions", "what"),
    [
        pytest.param(
            {"pytorch_version": "2.1", "tensorflow_version": "2.6"}, "both given", id="two"
        ),
        pytest.param({"pytorch_version": "2.1"}, "one of them is missing", id="only PyTorch"),
        pytest.param(
            {"transformers_version": "4.36"}, "one of them is missing", id="only transformers"
        ),
    ],
)
def test_versions_that_name_no_image_are_refused(versions, what):
    with pytest.raises(SpecError, match=what):
        HuggingFace("py310", "train.py", **versions)


def test_versions_beside_an_image_are_not_needed(script):
    made = HuggingFace("py310", script, "4.36", image_uri=OWN, **PLACES)
    assert made.request()["AlgorithmSpecification"]["TrainingImage"] == OWN


@pytest.mark.parametrize("versions", [("4.36", "2.8"), ("9.1", "2.1"), ("4.36.7", "2.1")])
def test_an_unknown_image_needs_the_package_that_knows_more(script, versions):
    given = dict(zip(("transformers_version", "pytorch_version"), versions, strict=True))
    with pytest.raises(SpecError, match=r"pip install 'hetero-launcher\[sagemaker\]'"):
        HuggingFace("py310", script, **given, **PLACES).request()


def test_regions_have_their_own_registries():
    def image(region):
        return known_huggingface_image("4.36", "2.1", None, region)

    assert image("cn-north-1").startswith("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/")
    assert image("eu-south-1").startswith("692866216735.dkr.ecr.eu-south-1.amazonaws.com/")
    assert image("moon-1") is None


THEIRS = """
import json
from sagemaker.image_uris import retrieve
print(json.dumps([
    retrieve("huggingface", region, version=t, py_version=p, instance_type="ml.g5.xlarge",
             image_scope="training", base_framework_version="pytorch" + b)
    for t, b, p, region in {wanted}
]))
"""
OURS = """
import json
from launcher.client.request.images import image_of
from launcher.client.spec import JobSpec
def ask(t, b, p, region):
    return image_of(JobSpec(
        entry_point="t.py", framework="pytorch", framework_version=b, transformers_version=t,
        py_version=p, instance_type="ml.g5.xlarge"), region)
print(json.dumps([ask(*wanted) for wanted in {wanted}]))
"""
REGIONS = ("us-east-1", "eu-south-1", "ap-southeast-3", "us-gov-west-1", "cn-north-1")


@pytest.mark.library("sagemaker-v2")
def test_the_package_has_the_same_images(tmp_path):
    wanted = [(i.transformers, i.pytorch, i.python, region) for i in IMAGES for region in REGIONS]
    theirs = run_in(sys.executable, THEIRS.format(wanted=wanted), tmp_path)
    known = json.loads(theirs.stdout.splitlines()[-1])
    assert known == [known_huggingface_image(*each) for each in wanted]
    ours = run_in(sys.executable, OURS.format(wanted=wanted), tmp_path)
    assert json.loads(ours.stdout) == known
    assert image_of(JobSpec(entry_point="t.py"), "us-east-1") is None
