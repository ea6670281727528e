"""extra_request adds to the request what no field says, and changes nothing of it."""

from typing import Any

import pytest

from launcher.client.request import JobLocation, build_request
from launcher.client.spec import InstanceGroup, JobSpec
from launcher.errors import SpecError

GROUPS = (InstanceGroup("train", "ml.c5.xlarge"), InstanceGroup("data", "ml.c5.xlarge"))


def request(extra: dict[str, Any], **fields: Any) -> dict[str, Any]:
    spec = JobSpec(
        entry_point="train.py", instance_groups=GROUPS, tags={"a": "1"}, extra_request=extra
    ).replace(**fields)
    places = dict.fromkeys(["job_name", "role_arn", "image_uri", "output_uri", "region"], "x")
    return build_request(spec, JobLocation(**places, code_uri="s3://b/code/", token="secret"))


def test_a_new_field_is_added_at_any_depth() -> None:
    extra = {"New": {"Deep": [1]}, "ResourceConfig": {"NewPart": True}}
    made = request(extra)
    assert made["New"] == {"Deep": [1]}
    assert made["ResourceConfig"] == {**request({})["ResourceConfig"], "NewPart": True}
    assert made.keys() - request({}).keys() == {"New"}


def test_the_items_of_a_list_are_added_to_it() -> None:
    channel = {"ChannelName": "set", "DataSource": {"DatasetSource": {"DatasetArn": "arn"}}}
    made = request({"Tags": [{"Key": "b", "Value": "2"}], "InputDataConfig": [channel]})
    assert made["Tags"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    assert [part["ChannelName"] for part in made["InputDataConfig"]] == ["code", "set"]


def test_an_item_that_the_job_has_is_not_sent_twice() -> None:
    assert request({"Tags": [{"Key": "a", "Value": "1"}]}) == request({})


@pytest.mark.parametrize(
    ("extra", "place"),
    [
        ({"Tags": [{"Key": "b", "Value": "2"}, {"Key": "a", "Value": "2"}]}, "Tags[1]"),
        ({"InputDataConfig": [{"ChannelName": "code", "DataSource": {}}]}, "InputDataConfig[0]"),
    ],
    ids=["a tag", "a channel"],
)
def test_an_item_by_a_name_that_the_job_has_is_refused(extra: dict[str, Any], place: str) -> None:
    with pytest.raises(SpecError) as refused:
        request(extra)
    assert f"{place} is set to" in str(refused.value)


def test_settings_equal_to_the_job_are_accepted() -> None:
    said = {"EnableNetworkIsolation": True, "ResourceConfig": {"VolumeSizeInGB": 30}}
    assert request(said, enable_network_isolation=True) == request(
        {}, enable_network_isolation=True
    )


@pytest.mark.parametrize(
    ("extra", "place"),
    [
        pytest.param({"TrainingJobName": "y"}, "TrainingJobName", id="name"),
        pytest.param({"EnableNetworkIsolation": False}, "EnableNetworkIsolation", id="flag"),
        pytest.param(
            {"StoppingCondition": {"MaxRuntimeInSeconds": 1}},
            "StoppingCondition.MaxRuntimeInSeconds",
            id="number",
        ),
        pytest.param(
            {"AlgorithmSpecification": {"ContainerEntrypoint": ["sh"]}},
            "AlgorithmSpecification.ContainerEntrypoint",
            id="start of the container",
        ),
        pytest.param(
            {"Environment": {"LAUNCHER_TOKEN": "mine"}}, "Environment.LAUNCHER_TOKEN", id="token"
        ),
        pytest.param(
            {"ResourceConfig": {"InstanceGroups": []}}, "ResourceConfig.InstanceGroups", id="groups"
        ),
        pytest.param({"HyperParameters": "x"}, "HyperParameters", id="another type"),
    ],
)
def test_nothing_of_the_job_is_changed(extra: dict[str, Any], place: str) -> None:
    with pytest.raises(SpecError) as raised:
        request(extra, enable_network_isolation=True)
    (problem,) = raised.value.problems
    assert problem.what.startswith(f"{place} is set to ")
    assert "sets another value" in problem.what
    assert problem.where == f"extra_request.{place}"
    assert "secret" not in problem.what


def test_all_contradictions_are_reported_at_once() -> None:
    with pytest.raises(SpecError) as raised:
        request({"RoleArn": "y", "ResourceConfig": {"VolumeSizeInGB": 1}})
    assert [problem.where for problem in raised.value.problems] == [
        "extra_request.RoleArn",
        "extra_request.ResourceConfig.VolumeSizeInGB",
    ]
