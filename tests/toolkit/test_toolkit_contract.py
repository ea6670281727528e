"""A real job of two groups: on each host, variables and files are those of the tables, and no more.

The script and the data hosts' dataset report what they find. A data host reports in its samples.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import contract_tables as tables
import pytest
from needs import skip_without_isolation

from launcher import DataService, InstanceGroup, Job, LocalSession, PyTorch, TrainingInput
from launcher.client.request import prepare
from launcher.client.sessions import place
from launcher.client.spec import JobSpec
from launcher.client.submit import send

HOSTS = {
    "algo-1": "data_group",
    "algo-2": "data_group",
    "algo-3": "train_group",
    "algo-4": "train_group",
}
#: What the platform, the toolkit and the images set; other variables are no part of the contract.
CONTRACT = ("SM_", "SAGEMAKER_", "TRAINING_JOB_", "AWS_", "CURRENT_", "MASTER_", "GREETING")

FINDINGS = """\
import json, os, sys
from pathlib import Path

def found():
    ml = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
    config = {path.name: path.read_text() for path in (ml / "input/config").iterdir()}
    channels = {path.name: sorted(f.name for f in path.iterdir())
                for path in (ml / "input/data").iterdir() if path.name != "code"}
    return json.dumps({"variables": dict(os.environ), "ml": str(ml), "config": config,
                       "channels": channels, "arguments": sys.argv[1:]})
"""
PIPELINE = """\
from findings import found

class Reports:
    def __len__(self):
        return 40
    def __getitem__(self, index):
        return found()

def reports():
    return Reports()
"""
#: Reads on until both data hosts have prepared a batch, so that both have reported.
SCRIPT = """\
import sys
sys.path.insert(0, "..")
from findings import found
from launcher.data import DataLoader, LoaderOptions
EVERYTHING = LoaderOptions(world_size=1)

print("FOUND", found())
seen = {}
while len(seen) < 2:
    for (report,) in DataLoader("pipeline:reports", options=EVERYTHING):
        seen[report.split('"CURRENT_HOST": ')[1][:8]] = report
for report in seen.values():
    print("FOUND", report)
"""


@pytest.fixture(params=["process", "sandbox"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> LocalSession:
    skip_without_isolation(request.param)
    return LocalSession(tmp_path / "home", request.param)


@pytest.fixture
def reports(session: LocalSession, tmp_path: Path) -> Mapping[str, dict[str, Any]]:
    """What each host of the job has found."""
    source = tmp_path / "source"
    (source / "steps").mkdir(parents=True)
    for name, text in {
        "findings.py": FINDINGS,
        "pipeline.py": PIPELINE,
        "steps/report.py": SCRIPT,
    }.items():
        (source / name).write_text(text)
    for name in ("images-raw/a", "images-raw/b", "images-raw/c", "labels/l", "validation/v"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(name)
    estimator = PyTorch(
        "steps/report.py",
        source_dir=str(source),
        instance_groups=[
            InstanceGroup("data_group", "ml.c5.xlarge", 2),
            InstanceGroup("train_group", "ml.g4dn.xlarge", 2),
        ],
        data_service=DataService(datasets=("pipeline:reports",), workers_per_host=1),
        hyperparameters=tables.HYPERPARAMETERS,
        environment={"GREETING": "hello world"},
        max_run=150,
        sagemaker_session=session,
    )
    uri = f"file://{tmp_path}/data"
    with pytest.warns(UserWarning, match="no distribution|only its share of the channel|is null"):
        job = estimator.fit(
            {
                "images-raw": TrainingInput(
                    f"{uri}/images-raw",
                    distribution="ShardedByS3Key",
                    content_type="image/png",
                    input_mode="FastFile",
                    instance_groups=["data_group"],
                ),
                "labels": f"{uri}/labels",
                "validation": TrainingInput(f"{uri}/validation", instance_groups=["train_group"]),
            },
            job_name="contract",
            logs=False,
        )
    lines = [line.text for line in job.logs() if line.text.startswith("FOUND ")]
    found = [json.loads(line.removeprefix("FOUND ")) for line in lines]
    return {each["variables"]["CURRENT_HOST"]: each for each in found}


def of_contract(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that the tables speak of."""
    named = {"NCCL_SOCKET_IFNAME"}
    return {k: v for k, v in variables.items() if k.startswith(CONTRACT) or k in named}


def expected_variables(host: str, ml: str) -> dict[str, str]:
    table = {**tables.EVERY_HOST, **tables.OF_GROUP[HOSTS[host]], **tables.OF_HOST[host]}
    return {name: text.replace("{ml}", ml) for name, text in table.items()}


def platform_variables(found: Mapping[str, Any]) -> dict[str, str]:
    """What a host has for the sake of where it runs.

    On SageMaker MASTER_ADDR is a name; here it is the address that stands for algo-3, in train
    hosts alone, and the port is one of the job's own, since hosts share this machine.
    """
    variables = found["variables"]
    expected = {}
    if HOSTS[variables["CURRENT_HOST"]] == "train_group":
        expected["MASTER_ADDR"] = json.loads(variables["LAUNCHER_HOST_ADDRESSES"])["algo-3"]
        expected["MASTER_PORT"] = str(int(variables["LAUNCHER_PORT_BASE"]) + 7)
    if found["ml"] != "/opt/ml":
        expected["SAGEMAKER_BASE_DIR"] = found["ml"]  # isolation "process" cannot have /opt/ml
    return expected


@pytest.mark.long
def test_hosts_find_what_the_toolkit_would_give_them(
    reports: Mapping[str, dict[str, Any]],
) -> None:
    assert set(reports) == set(HOSTS)
    for host, found in reports.items():
        variables = of_contract(found["variables"])
        of_machine = {name: variables.pop(name) for name in tables.OF_MACHINE}
        assert variables == expected_variables(host, found["ml"]) | platform_variables(found)
        check_machine(of_machine)
        check_training_env(json.loads(of_machine["SM_TRAINING_ENV"]), found, host)
        check_files(found, host)
    assert reports["algo-3"]["arguments"] == tables.ARGUMENTS
    check_channels(reports)


def check_machine(variables: Mapping[str, str]) -> None:
    """The four hosts share this machine's CPUs; each sees all of its GPUs."""
    assert variables["SM_NUM_CPUS"] == str(max(1, len(os.sched_getaffinity(0)) // 4))
    assert variables["SM_NUM_GPUS"] == str(len(list(Path("/dev").glob("nvidia[0-9]*"))))
    assert variables["SM_NUM_NEURONS"] == str(len(list(Path("/dev").glob("neuron[0-9]*"))))


def check_training_env(told: dict[str, Any], found: Mapping[str, Any], host: str) -> None:
    """It repeats the variables, as JSON, and adds what the table says."""
    variables = found["variables"]
    repeated = {
        name.removeprefix("SM_").lower(): _value(variables[name])
        for name in variables
        if name.startswith("SM_") and not name.startswith(("SM_HP_", "SM_CHANNEL_"))
    }
    for name in ("hps", "framework_params", "user_args", "channels", "training_env"):
        del repeated[name]  # it has these by other names, or not at all
    folders = {name: f"{found['ml']}/input/data/{name}" for name in found["channels"]}
    assert told == {
        **repeated,
        **tables.TRAINING_ENV_BESIDE,
        "channel_input_dirs": folders,
        "is_master": host == "algo-3",
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def check_files(found: Mapping[str, Any], host: str) -> None:
    """Every file of input/config."""
    config = {name: json.loads(text) for name, text in found["config"].items()}
    assert set(config) == {
        "hyperparameters.json",
        "inputdataconfig.json",
        "resourceconfig.json",
    }
    assert config["hyperparameters.json"] == tables.HYPERPARAMETERS_FILE
    assert config["inputdataconfig.json"] == tables.INPUT_DATA_FILE[HOSTS[host]]
    assert config["resourceconfig.json"] == json.loads(tables.OF_HOST[host]["SM_RESOURCE_CONFIG"])


def check_channels(reports: Mapping[str, dict[str, Any]]) -> None:
    """Shards are dealt out over the hosts of the channel's group; other channels are copies."""
    labels = {"labels": ["l"]}
    assert {host: found["channels"] for host, found in reports.items()} == {
        "algo-1": {"images-raw": ["a", "c"], **labels},
        "algo-2": {"images-raw": ["b"], **labels},
        "algo-3": {**labels, "validation": ["v"]},
        "algo-4": {**labels, "validation": ["v"]},
    }


EDITED = """\
import json, os, sys
print("FOUND", json.dumps([sys.argv[1:], os.environ["SM_HPS"]]))
"""


@pytest.mark.long
def test_who_edits_the_request_is_obeyed(tmp_path: Path) -> None:
    """The job document was written with the values as they were; it restores types, not values."""
    (tmp_path / "train.py").write_text(EDITED)
    spec = JobSpec(
        entry_point=str(tmp_path / "train.py"),
        instance_type="local",
        hyperparameters={"epochs": 3, "rate": 0.5, "name": "abc", "gone": 1},
    )
    session = LocalSession(tmp_path / "home", "process")
    submission = prepare(spec, place(spec, session, "edited"))
    values = submission.request["HyperParameters"]
    del values["gone"]
    # as a person or a tuner writes them: bare texts, a whole number for a float, new names
    values |= {"epochs": "5", "rate": "1", "name": "123", "new": "[1, 2]"}
    values |= {"_tuning_objective_metric": "loss", "sagemaker_region": '"us-east-1"'}
    send(submission, session)
    job = Job("edited", session).wait()
    job.raise_for_status()

    lines = [line.text for line in job.logs() if line.text.startswith("FOUND ")]
    arguments, values = json.loads(lines[0].removeprefix("FOUND "))
    assert arguments == [
        *("--epochs", "5"),
        *("--name", "123"),
        *("--new", "[1, 2]"),
        *("--rate", "1.0"),
    ]
    assert values == '{"epochs":5,"name":"123","new":[1,2],"rate":1.0}'
