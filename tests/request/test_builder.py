"""The request and the job document, as golden files: YAML in, JSON out.

After a change that is meant, rewrite them with UPDATE_GOLDEN=1 and read the difference.
"""

import json
import os
from pathlib import Path

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from launcher.client.request import JobLocation, SourceTree, build_document, build_request, redacted
from launcher.client.spec import InstanceGroup, JobSpec, TrainingInput

GOLDEN = Path(__file__).parent / "golden"
NAMES = [
    "homogeneous",
    "spot",
    "two_groups",
    "two_groups_unrouted",
    "command_group",
    "mpi",
    "multi_worker_mirrored",
    "parameter_server",
    "jax",
    "model_parallel",
    "partition_file",
    "auto_partition",
    "task",
    "vpc_kms_tags",
    "network_isolation",
    "warm_pool",
    "file_systems",
    "watched",
    "extra_request",
    "preferences",
]
#: Jobs that AWS's toolkit, or the image, starts; nothing of Launcher is there to read a document.
TOOLKIT = ["smddp", "smddp_one_group", "smp"]
IMAGES_OWN = ["own_command", "algorithm"]
NO_IMAGE = ["serverless"]
REQUESTS = [*NAMES, *TOOLKIT, *IMAGES_OWN, *NO_IMAGE]


def placement(**fields):
    return JobLocation(
        **{
            "job_name": "job-1",
            "role_arn": "arn:aws:iam::111122223333:role/Training",
            "image_uri": "111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1",
            "code_uri": "s3://my-bucket/code/job-1/code/",
            "output_uri": "s3://my-bucket/output",
            "token": "00112233445566778899aabbccddeeff",
            "region": "us-east-1",
            **fields,
        }
    )


def compare(made: object, golden: Path):
    text = json.dumps(made, indent=2) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def golden_request(name):
    spec = JobSpec.from_yaml(GOLDEN / f"{name}.yaml")
    places = {"role_arn": spec.role, "image_uri": spec.image_uri or spec.algorithm_arn}
    return build_request(spec, placement(**places, checkpoint_uri=spec.checkpoint_s3_uri))


@pytest.mark.parametrize("name", REQUESTS)
def test_the_request_is_the_golden_one(name):
    compare(golden_request(name), GOLDEN / f"{name}.json")


@pytest.mark.parametrize("name", NAMES)
def test_the_job_document_is_the_golden_one(name):
    spec = JobSpec.from_yaml(GOLDEN / f"{name}.yaml")
    document = build_document(spec, SourceTree(spec).partition)
    compare(json.loads(document.to_json()), GOLDEN / f"{name}.launcher.json")


def test_boto_accepts_the_requests():
    model = ServiceModel(Loader().load_service_model("sagemaker", "service-2"), "sagemaker")
    shape = model.operation_model("CreateTrainingJob").input_shape
    for name in REQUESTS:
        report = ParamValidator().validate(golden_request(name), shape)
        assert not report.has_errors(), f"{name}: {report.generate_report()}"


# Routing of channels ---------------------------------------------------------------------------

TWO = (InstanceGroup("cpu", "ml.c5.xlarge", 1), InstanceGroup("gpu", "ml.g5.xlarge", 1))


def routing(**inputs):
    spec = JobSpec(entry_point="t.py", instance_groups=TWO, inputs=inputs)
    return {
        channel["ChannelName"]: channel["DataSource"]["S3DataSource"].get("InstanceGroupNames")
        for channel in build_request(spec, placement())["InputDataConfig"]
    }


def test_when_no_channel_is_routed_none_is():
    assert routing(a="s3://b/a") == {"a": None, "code": None}


def test_when_one_channel_is_routed_all_are():
    routed = TrainingInput("s3://b/a", instance_groups=("cpu",))
    assert routing(a=routed, b="s3://b/b") == {
        "a": ["cpu"],
        "b": ["cpu", "gpu"],
        "code": ["cpu", "gpu"],
    }


def test_a_job_without_channels_has_the_code_channel():
    assert routing() == {"code": None}


def test_a_warm_pool_of_no_seconds_is_not_asked_for_beside_groups():
    spec = JobSpec(entry_point="t.py", instance_groups=TWO, keep_alive_period_in_seconds=0)
    assert "KeepAlivePeriodInSeconds" not in build_request(spec, placement())["ResourceConfig"]


# The token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machines", "has_token"),
    [
        pytest.param({"instance_type": "local", "instance_count": 1}, False, id="one host"),
        pytest.param({"instance_type": "local", "instance_count": 2}, True, id="two hosts"),
        pytest.param({"instance_groups": TWO}, True, id="two groups of one host"),
    ],
)
def test_only_hosts_that_talk_to_each_other_get_the_token(machines, has_token):
    request = build_request(JobSpec(entry_point="t.py", **machines), placement())
    assert ("LAUNCHER_TOKEN" in request["Environment"]) is has_token


def test_the_token_is_taken_out_of_a_request_that_is_shown():
    spec = JobSpec(entry_point="t.py", instance_groups=TWO, environment={"A": "1"})
    request = build_request(spec, placement())
    shown = redacted(request)
    assert shown["Environment"] == {"A": "1", "LAUNCHER_TOKEN": "<redacted>"}
    assert request["Environment"]["LAUNCHER_TOKEN"] == placement().token
    assert placement().token not in json.dumps(shown)


# The document ----------------------------------------------------------------------------------


def trainer(**fields):
    return build_document(JobSpec(entry_point="t.py", instance_count=1, **fields)).trainer


def test_without_a_distribution_the_script_runs_once_per_host():
    part = trainer(instance_type="ml.p3.8xlarge")
    assert (part.launch.value, part.processes_per_host) == ("python", 1)


def test_a_script_without_a_source_folder_is_at_the_top_of_the_code():
    spec = JobSpec(entry_point="/home/me/deep/t.py", instance_type="local", instance_count=1)
    assert build_document(spec).trainer.entry_point == "t.py"


def test_the_types_of_hyperparameters_are_kept():
    values = {"b": True, "i": 1, "f": 1.0, "s": "1", "l": [1], "d": {"a": 1}, "n": None}
    spec = JobSpec(
        entry_point="t.py", instance_type="local", instance_count=1, hyperparameters=values
    )
    assert build_document(spec).hyperparameter_types == {
        "b": "bool",
        "i": "int",
        "f": "float",
        "s": "str",
        "l": "json",
        "d": "json",
        "n": "json",
    }
