"""What a host finds: files, variables, names and addresses."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, channel, group

from launcher.client.jobs import host_groups


def seen(bench: Bench, name: str = "job") -> dict[str, Any]:
    """The JSON that each host printed, by host."""
    return {host: json.loads(lines[-1]) for host, lines in bench.lines(name).items()}


#: What a host finds, and the words that it gets from the first one.
LOOKS = """
import tempfile
folders = ["code", "model", "output/data", "output/intermediate", "checkpoints"]
for folder in folders:
    (ml / folder / "probe").touch()
temporary = Path(tempfile.gettempdir())
with socket.socket(socket.AF_UNIX) as server:
    server.bind(tempfile.mkdtemp() + "/listener-with-a-long-name-abcdefgh")
address = json.loads(os.environ.get("LAUNCHER_HOST_ADDRESSES", "{}")).get("algo-1", "algo-1")
port = int(os.environ.get("LAUNCHER_PORT_BASE", "7770"))
word = None
if host == "algo-1":
    with socket.create_server((address, port)) as server:
        for _ in range(2):
            connection, _ = server.accept()
            connection.sendall(b"welcome")
            connection.close()
while host != "algo-1" and word is None:
    try:
        with socket.create_connection((address, port)) as connection:
            word = connection.recv(100).decode()
    except ConnectionRefusedError:
        time.sleep(0.02)
print(json.dumps({
    "resources": me,
    "hyperparameters": config["hyperparameters"],
    "channels": config["inputdataconfig"],
    "folders": [(ml / folder).is_dir() for folder in folders],
    "environment": dict(os.environ),
    "python": [sys.executable, sys.prefix],
    "temporary": [temporary.stat().st_dev, temporary.stat().st_ino],
    "arguments": sys.argv[1:],
    "ml": str(ml),
    "word": word,
}))
"""
OTHERS_PATHS = ["/data/opt/ml", "/opt/mlx", "a b'c"]


def test_of_preferred_types_a_job_gets_the_first(bench: Bench) -> None:
    preferences = [
        {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
        {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1},
    ]
    resources = {"VolumeSizeInGB": 30, "InstancePreferences": preferences}
    ended = bench.run("print(json.dumps(me))", ResourceConfig=resources)
    assert ended["TrainingJobStatus"] == "Completed"
    selected = {"SelectedInstanceType": "ml.c5.xlarge", "SelectedInstanceCount": 2}
    assert ended["ResourceConfig"] == {**resources, **selected}
    (only,) = host_groups(ended)
    assert (only.instance_type, only.hosts) == ("ml.c5.xlarge", ("algo-1", "algo-2"))
    for each in seen(bench).values():
        assert each["current_instance_type"] == "ml.c5.xlarge"


OWN_NETWORKS = ("network", "container")


@pytest.fixture
def found(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each host of a heterogeneous job finds."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the caller's own")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    data = bench.folder / "data"
    data.mkdir()
    (data / "a").touch()
    request = bench.request(
        LOOKS,
        groups=[group("data_group", 2), group("dnn_group", 1)],
        channels=[channel("digits", f"file://{data}") | {"ContentType": "image/png"}],
        HyperParameters={"lr": "0.001", "name": '"abc"'},
        Environment={"COLOUR": "blue"},
    )
    words = ["/opt/ml/model", "--model=/opt/ml/model", *OTHERS_PATHS]
    request["AlgorithmSpecification"]["ContainerArguments"] = words
    bench.session.create_training_job(**request)
    bench.end_of()
    return seen(bench)


def test_what_a_host_finds(found: dict[str, Any], isolation: str) -> None:
    common = {
        "TrainingInputMode": "File",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }
    for host, each in found.items():
        assert each["folders"] == [True] * 5
        if isolation != "container":  # whose Python is the image's
            assert each["python"] == [sys.executable, sys.prefix]
        assert each["hyperparameters"] == {"lr": "0.001", "name": '"abc"'}
        assert each["channels"] == {"digits": common | {"ContentType": "image/png"}, "code": common}
        assert (each["ml"] == "/opt/ml") == (isolation != "process")
        ml = each["ml"]
        assert each["arguments"] == [f"{ml}/model", f"--model={ml}/model", *OTHERS_PATHS]
        assert each["word"] == (None if host == "algo-1" else "welcome"), "hosts reach each other"
    assert len({tuple(each["temporary"]) for each in found.values()}) == 3, "each has its own"
    check_variables(found["algo-1"]["environment"], isolation)
    groups = {"data_group": ["algo-1", "algo-2"], "dnn_group": ["algo-3"]}
    assert found["algo-3"]["resources"] == {
        "current_host": "algo-3",
        "current_instance_type": "ml.c5.xlarge",
        "current_group_name": "dnn_group",
        "hosts": ["algo-1", "algo-2", "algo-3"],
        "instance_groups": [
            {"instance_group_name": name, "instance_type": "ml.c5.xlarge", "hosts": hosts}
            for name, hosts in groups.items()
        ],
        "network_interface_name": "eth0" if isolation in OWN_NETWORKS else "lo",
        "topology": None,
    }


def check_variables(environment: dict[str, str], isolation: str) -> None:
    """A host has those of a training container and its job's, and nothing of the caller's."""
    for variable in (
        *("HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PWD"),
        *("LAUNCHER_EVENTS", "LAUNCHER_LOCAL_HOST", "SAGEMAKER_BASE_DIR"),
    ):
        environment.pop(variable, None)
    path = environment.pop("PATH").split(":")
    if isolation == "container":
        for variable in ("HOSTNAME", "TERM", "container", "LC_CTYPE"):  # Podman's, and Python's
            environment.pop(variable, None)
    else:
        assert path[0] == str(Path(sys.executable).parent)
    if isolation not in OWN_NETWORKS:  # there, names resolve and ports are free, as on SageMaker
        addresses = json.loads(environment.pop("LAUNCHER_HOST_ADDRESSES"))
        assert list(addresses) == ["algo-1", "algo-2", "algo-3"]
        assert 1024 < int(environment.pop("LAUNCHER_PORT_BASE")) < 32768
    assert environment == {
        "COLOUR": "blue",
        "TRAINING_JOB_NAME": "job",
        "TRAINING_JOB_ARN": "arn:aws:sagemaker:local:000000000000:training-job/job",
        "AWS_REGION": "local",
        "LAUNCHER_HOST_CPUS": str(max(1, len(os.sched_getaffinity(0)) // 3)),
    }


def test_eleven_hosts_keep_the_platforms_order_and_are_shown_in_numeric_order(
    plain_bench: Bench,
) -> None:
    """SageMaker sorts the names in resourceconfig.json as texts: algo-10 comes before algo-2."""
    names = [f"algo-{number}" for number in range(1, 12)]
    plain_bench.run("print(json.dumps(me))", hosts=11)

    assert [stream.host for stream in plain_bench.session.log_streams("job")] == names
    for name, resources in seen(plain_bench).items():
        assert resources == {
            "current_host": name,
            "current_instance_type": "ml.c5.xlarge",
            "current_group_name": "homogeneousCluster",
            "hosts": sorted(names),
            "instance_groups": [
                {
                    "instance_group_name": "homogeneousCluster",
                    "instance_type": "ml.c5.xlarge",
                    "hosts": sorted(names),
                }
            ],
            "network_interface_name": "lo",
            "topology": None,
        }
