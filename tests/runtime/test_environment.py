"""Who am I: the platform's files in, typed values and the toolkit's variables out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import ContractError
from launcher.runtime import (
    Cluster,
    Environment,
    address_variables,
    hyperparameters,
    in_numeric_order,
    toolkit_variables,
)
from launcher.shared import DataPart, JobDocument, MlPaths, Role, TrainerPart, is_set_by_jobs

RESOURCES = {
    "current_host": "algo-3",
    "current_instance_type": "ml.p4d.24xlarge",
    "current_group_name": "dnn_group",
    "hosts": ["algo-1", "algo-2", "algo-3"],
    "instance_groups": [
        {
            "instance_group_name": "data_group",
            "instance_type": "ml.c5.9xlarge",
            "hosts": ["algo-1", "algo-2"],
        },
        {
            "instance_group_name": "dnn_group",
            "instance_type": "ml.p4d.24xlarge",
            "hosts": ["algo-3"],
        },
    ],
    "network_interface_name": "eth0",
}
ROLES = {"data_group": Role.DATA, "dnn_group": Role.TRAIN}
#: What the toolkit was seen to turn into SM_HPS={"epochs":3,"lr":0.001,...} and SM_USER_ARGS.
RAW = {
    "epochs": "3",
    "lr": "0.001",
    "name": '"abc"',
    "flag": "true",
    "d": '{"a": 1}',
    "raw": "notjson",
    "learning-rate": "0.5",
    "sagemaker_program": '"train.py"',
    "sagemaker_mpi_enabled": "true",
    "_tuning_objective_metric": '"loss"',
}


def environment(
    tmp_path: Path, resources: dict[str, Any] = RESOURCES, **environ: str
) -> Environment:
    paths = MlPaths(tmp_path)
    code = paths.channels / "code"
    code.mkdir(parents=True)
    paths.config.mkdir()
    document = JobDocument(
        roles=ROLES,
        trainer=TrainerPart(entry_point="train.py"),
        data=DataPart(datasets=("pipeline:train_set",)),
    )
    (code / "launcher.json").write_text(document.to_json())
    if resources:
        (paths.config / "resourceconfig.json").write_text(json.dumps(resources))
    (paths.config / "hyperparameters.json").write_text(json.dumps(RAW))
    (paths.config / "inputdataconfig.json").write_text(
        json.dumps({"train": {"TrainingInputMode": "File"}, "code": {"TrainingInputMode": "File"}})
    )
    return Environment.read(
        paths, {"TRAINING_JOB_NAME": "job-1", "AWS_REGION": "eu-west-1", **environ}
    )


def test_the_cluster_as_this_host_sees_it(tmp_path: Path) -> None:
    cluster = environment(tmp_path).cluster
    assert (cluster.host, cluster.group.name, cluster.host_rank) == ("algo-3", "dnn_group", 0)
    assert (cluster.leader, cluster.is_leader) == ("algo-3", True)
    assert cluster.data_hosts == ("algo-1", "algo-2")
    assert (cluster.address("algo-1"), cluster.bind_address) == ("algo-1", "0.0.0.0")


def test_addresses_replace_names_that_do_not_resolve(tmp_path: Path) -> None:
    addresses = json.dumps({"algo-1": "127.9.0.1", "algo-3": "127.9.0.3"})
    cluster = environment(tmp_path, LAUNCHER_HOST_ADDRESSES=addresses).cluster
    assert (cluster.address("algo-1"), cluster.bind_address) == ("127.9.0.1", "127.9.0.3")


def test_hosts_are_in_numeric_order() -> None:
    names = ["algo-10", "algo-2", "algo-1", "algo-11"]
    assert in_numeric_order(names) == ("algo-1", "algo-2", "algo-10", "algo-11")


def test_a_job_without_groups_is_one_group() -> None:
    cluster = Cluster.from_resource_config(
        {"current_host": "algo-10", "hosts": ["algo-1", "algo-10", "algo-2"]},
        {"homogeneousCluster": Role.TRAIN},
        {},
    )
    assert cluster.train_group.hosts == ("algo-1", "algo-2", "algo-10")
    assert cluster.host_rank == 2


def test_a_group_without_a_role_is_refused() -> None:
    with pytest.raises(ContractError, match=r"no role for the groups \['dnn_group'\]"):
        Cluster.from_resource_config(RESOURCES, {"data_group": Role.DATA}, {})


def test_variables_are_the_fallback_for_files(tmp_path: Path) -> None:
    read = environment(tmp_path, {}, SM_RESOURCE_CONFIG=json.dumps(RESOURCES))
    assert read.cluster.host == "algo-3"


def test_a_folder_outside_a_training_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="not the inside of a training job"):
        environment(tmp_path, {})


@pytest.mark.parametrize(
    ("text", "declared", "value"),
    [
        ("3", "int", 3),
        ("3", "float", 3.0),
        ("0.5", "float", 0.5),
        ('"abc"', "str", "abc"),
        ("abc", "str", "abc"),
        ("123", "str", "123"),
        ("true", "bool", True),
        ("true", "str", "true"),
        ("True", "bool", "True"),
        ("[1, 2]", "json", [1, 2]),
        ("null", None, None),
        ("not json", None, "not json"),
    ],
)
def test_hyperparameters_keep_their_types_also_when_the_request_was_edited(
    text: str, declared: str | None, value: object
) -> None:
    decoded = hyperparameters.decode({"x": text}, {"x": declared} if declared else {})["x"]
    assert (decoded, type(decoded)) == (value, type(value))


#: sagemaker-training 5.1.4 on an emulated host of the cluster above.
EXPECTED = {
    "SM_HOSTS": '["algo-1","algo-2","algo-3"]',
    "SM_CURRENT_HOST": "algo-3",
    "SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge",
    "SM_NETWORK_INTERFACE_NAME": "eth0",
    "SM_CURRENT_INSTANCE_GROUP": "dnn_group",
    "SM_CURRENT_INSTANCE_GROUP_HOSTS": '["algo-3"]',
    "SM_INSTANCE_GROUPS": '["data_group","dnn_group"]',
    "SM_DISTRIBUTION_INSTANCE_GROUPS": '["dnn_group"]',
    "SM_IS_HETERO": "true",
    "SM_HP_EPOCHS": "3",
    "SM_HP_NAME": "abc",
    "SM_HP_FLAG": "true",
    "SM_HP_LEARNING-RATE": "0.5",
    "SM_CHANNELS": '["train"]',
    "SM_LOG_LEVEL": "20",
    "SM_MODULE_NAME": "train",
    "SM_USER_ENTRY_POINT": "train.py",
    "SM_FRAMEWORK_MODULE": "",
    "SM_FRAMEWORK_PARAMS": '{"sagemaker_mpi_enabled":true}',
    "SM_USER_ARGS": '["-d","a=1","--epochs","3","--flag","True","--learning-rate","0.5",'
    '"--lr","0.001","--name","abc","--raw","notjson"]',
    "CURRENT_HOST": "algo-3",
    "SAGEMAKER_JOB_NAME": "job-1",
    "SAGEMAKER_REGION": "eu-west-1",
}


def test_with_more_than_nine_hosts_lists_are_lexicographic_and_ranks_numeric(
    tmp_path: Path,
) -> None:
    """The platform and the toolkit put algo-10 before algo-2; the leader has the lowest number."""
    train = ["algo-10", "algo-11", *(f"algo-{number}" for number in range(2, 10))]
    resources = {
        **RESOURCES,
        "current_host": "algo-10",
        "hosts": ["algo-1", *train],
        "instance_groups": [
            {"instance_group_name": "data_group", "instance_type": "a", "hosts": ["algo-1"]},
            {"instance_group_name": "dnn_group", "instance_type": "b", "hosts": train},
        ],
    }
    read = environment(tmp_path, resources)
    variables = toolkit_variables(read)

    assert json.loads(variables["SM_HOSTS"]) == ["algo-1", *train]
    assert json.loads(variables["SM_CURRENT_INSTANCE_GROUP_HOSTS"]) == train
    assert json.loads(variables["SM_INSTANCE_GROUPS_DICT"])["dnn_group"]["hosts"] == train
    training = json.loads(variables["SM_TRAINING_ENV"])
    assert training["distribution_hosts"] == train
    assert (training["master_hostname"], training["is_master"]) == ("algo-2", False)
    assert read.cluster.host_rank == 8


def test_what_is_set_on_a_host_cannot_be_given(tmp_path: Path) -> None:
    """The client refuses these names in a job's environment, where they would be lost."""
    read = environment(tmp_path)
    for name in {**toolkit_variables(read), **address_variables(read)}:
        assert is_set_by_jobs(name, has_ranks=False), name
    assert not is_set_by_jobs("RANK", has_ranks=False)
    assert is_set_by_jobs("LOCAL_RANK", has_ranks=True)


def test_the_variables_are_those_of_the_toolkit(tmp_path: Path) -> None:
    variables = toolkit_variables(environment(tmp_path))
    assert {name: variables.get(name) for name in EXPECTED} == EXPECTED
    paths = {
        "SM_CHANNEL_TRAIN": "input/data/train",
        "SM_INPUT_DIR": "input",
        "SM_INPUT_CONFIG_DIR": "input/config",
        "SM_MODEL_DIR": "model",
        "SM_OUTPUT_DIR": "output",
        "SM_OUTPUT_DATA_DIR": "output/data",
        "SM_OUTPUT_INTERMEDIATE_DIR": "output/intermediate",
        "SM_MODULE_DIR": "code",
    }
    assert {n: variables[n] for n in paths} == {n: str(tmp_path / p) for n, p in paths.items()}
    assert json.loads(variables["SM_HPS"]) == {
        "epochs": 3,
        "lr": 0.001,
        "name": "abc",
        "flag": True,
        "d": {"a": 1},
        "raw": "notjson",
        "learning-rate": 0.5,
    }
    assert json.loads(variables["SM_RESOURCE_CONFIG"]) == RESOURCES
    assert json.loads(variables["SM_INSTANCE_GROUPS_DICT"])["data_group"]["hosts"] == [
        "algo-1",
        "algo-2",
    ]
    training = json.loads(variables["SM_TRAINING_ENV"])
    assert training["master_hostname"] == "algo-3"
    assert training["is_master"] is True
    assert training["distribution_hosts"] == ["algo-3"]
    assert {"SM_NUM_CPUS", "SM_NUM_GPUS", "SM_NUM_NEURONS", "SM_INPUT_DATA_CONFIG"} <= set(
        variables
    )
