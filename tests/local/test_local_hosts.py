"""What a host finds: files, variables, names and addresses."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, channel, group


def seen(bench: Bench, name: str = "job") -> dict[str, Any]:
    """The JSON that each host printed, by host."""
    return {host: json.loads(lines[-1]) for host, lines in bench.lines(name).items()}


def test_resource_config_of_a_heterogeneous_job(bench: Bench, isolation: str) -> None:
    bench.run("print(json.dumps(me))", groups=[group("data_group", 2), group("dnn_group", 1)])

    assert seen(bench)["algo-3"] == {
        "current_host": "algo-3",
        "current_instance_type": "ml.c5.xlarge",
        "current_group_name": "dnn_group",
        "hosts": ["algo-1", "algo-2", "algo-3"],
        "instance_groups": [
            {
                "instance_group_name": "data_group",
                "instance_type": "ml.c5.xlarge",
                "hosts": ["algo-1", "algo-2"],
            },
            {
                "instance_group_name": "dnn_group",
                "instance_type": "ml.c5.xlarge",
                "hosts": ["algo-3"],
            },
        ],
        "network_interface_name": "eth0" if isolation == "network" else "lo",
        "topology": None,
    }


def test_resource_config_of_a_homogeneous_job(plain_bench: Bench) -> None:
    plain_bench.run("print(json.dumps(me))", hosts=2)

    assert seen(plain_bench)["algo-2"] == {
        "current_host": "algo-2",
        "current_instance_type": "ml.c5.xlarge",
        "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1", "algo-2"],
        "instance_groups": [
            {
                "instance_group_name": "homogeneousCluster",
                "instance_type": "ml.c5.xlarge",
                "hosts": ["algo-1", "algo-2"],
            }
        ],
        "network_interface_name": "lo",
        "topology": None,
    }


@pytest.mark.long
def test_twelve_hosts_keep_the_platforms_order_and_are_shown_in_numeric_order(
    plain_bench: Bench,
) -> None:
    """SageMaker sorts the names in resourceconfig.json as texts: algo-10 comes before algo-2."""
    names = [f"algo-{number}" for number in range(1, 13)]
    plain_bench.run("print(json.dumps(me))", groups=[group("data", 9), group("train", 3)])

    assert [stream.host for stream in plain_bench.session.log_streams("job")] == names
    for name, resources in seen(plain_bench).items():
        assert resources["current_host"] == name
        assert resources["hosts"] == sorted(names)
        assert resources["current_group_name"] == ("data" if names.index(name) < 9 else "train")


def test_hyperparameters_and_channels_are_as_in_the_request(plain_bench: Bench) -> None:
    data = plain_bench.folder / "data"
    data.mkdir()
    (data / "a").touch()
    plain_bench.run(
        "print(json.dumps([config['hyperparameters'], config['inputdataconfig']]))",
        channels=[channel("digits", f"file://{data}") | {"ContentType": "image/png"}],
        HyperParameters={"lr": "0.001", "name": '"abc"'},
    )

    hyperparameters, channels = seen(plain_bench)["algo-1"]
    assert hyperparameters == {"lr": "0.001", "name": '"abc"'}
    common = {
        "TrainingInputMode": "File",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }
    assert channels == {"digits": common | {"ContentType": "image/png"}, "code": common}


def test_the_folders_of_a_training_container_exist(bench: Bench) -> None:
    script = """
    folders = ["code", "model", "output/data", "output/intermediate", "checkpoints"]
    for folder in folders:
        (ml / folder / "probe").touch()
    print(json.dumps([(ml / folder).is_dir() for folder in folders]))
    """
    bench.run(script)
    assert seen(bench) == {"algo-1": [True] * 5}


def test_the_environment_has_nothing_of_the_callers(
    bench: Bench, monkeypatch: Any, isolation: str
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the caller's own")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    bench.run("print(json.dumps(dict(os.environ)))", Environment={"COLOUR": "blue"}, hosts=2)

    environment = seen(bench)["algo-1"]
    for variable in (
        *("HOME", "TMPDIR", "LANG", "LC_ALL", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PWD"),
        *("LAUNCHER_EVENTS", "LAUNCHER_LOCAL_HOST", "SAGEMAKER_BASE_DIR"),
    ):
        environment.pop(variable, None)
    path = environment.pop("PATH").split(":")
    assert path[0] == str(Path(sys.executable).parent)
    if isolation != "network":  # there, names resolve and ports are free, as on SageMaker
        addresses = json.loads(environment.pop("LAUNCHER_HOST_ADDRESSES"))
        assert list(addresses) == ["algo-1", "algo-2"]
        assert 1024 < int(environment.pop("LAUNCHER_PORT_BASE")) < 32768
    assert environment == {
        "COLOUR": "blue",
        "TRAINING_JOB_NAME": "job",
        "TRAINING_JOB_ARN": "arn:aws:sagemaker:local:000000000000:training-job/job",
        "AWS_REGION": "local",
        "LAUNCHER_HOST_CPUS": str(max(1, len(os.sched_getaffinity(0)) // 2)),
    }


def test_python3_is_the_python_that_runs_the_session(bench: Bench) -> None:
    bench.run("print(json.dumps([sys.executable, sys.prefix]))")
    assert seen(bench) == {"algo-1": [sys.executable, sys.prefix]}


def test_a_temporary_folder_is_the_hosts_own_and_has_room_for_a_socket(bench: Bench) -> None:
    script = """
    import tempfile
    folder = Path(tempfile.gettempdir())
    print(json.dumps([folder.stat().st_dev, folder.stat().st_ino]))
    (folder / "mine").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(tempfile.mkdtemp() + "/listener-with-a-long-name-abcdefgh")
    """
    bench.run(script, hosts=2)
    folders = seen(bench)
    assert folders["algo-1"] != folders["algo-2"]


def test_the_command_gets_the_folder_of_opt_ml(bench: Bench, isolation: str) -> None:
    request = bench.request("print(json.dumps([sys.argv[1:], str(ml)]))")
    request["AlgorithmSpecification"]["ContainerArguments"] = [
        "/opt/ml/model",
        "--model=/opt/ml/model",
        "/data/opt/ml",
        "/opt/mlx",
        "a b'c",
    ]
    bench.session.create_training_job(**request)
    bench.end_of()

    arguments, ml = seen(bench)["algo-1"]
    assert arguments == [f"{ml}/model", f"--model={ml}/model", "/data/opt/ml", "/opt/mlx", "a b'c"]
    assert (ml == "/opt/ml") == (isolation != "process")


def test_hosts_reach_each_other(bench: Bench) -> None:
    script = """
    address = json.loads(os.environ.get("LAUNCHER_HOST_ADDRESSES", "{}")).get("algo-1", "algo-1")
    port = int(os.environ.get("LAUNCHER_PORT_BASE", "7770"))
    if host == "algo-1":
        with socket.create_server((address, port)) as server:
            for _ in range(2):
                connection, _ = server.accept()
                connection.sendall(b"welcome")
                connection.close()
        print(json.dumps("served"))
    while host != "algo-1":
        try:
            with socket.create_connection((address, port)) as connection:
                print(json.dumps(connection.recv(100).decode()))
                break
        except ConnectionRefusedError:
            time.sleep(0.02)
    """
    bench.run(script, groups=[group("data", 2), group("train", 1)])
    assert seen(bench) == {"algo-1": "served", "algo-2": "welcome", "algo-3": "welcome"}
