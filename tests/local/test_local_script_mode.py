"""Jobs that AWS's images start, as SDK v2 sends them: their script mode is emulated."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from bench import Bench, channel, group
from cloud import SOURCE, Cloud
from needs import needs_mpirun
from programs import ADD_UP

from launcher.errors import PlatformError


@pytest.fixture
def isolation(isolation: str) -> str:
    if isolation == "container":
        pytest.skip("there the image's own toolkit starts the script, and this one has none")
    return isolation


def asked(s3_bench: Bench, hyperparameters: Mapping[str, Any] | None = None, **fields: Any) -> Any:
    """A request of SDK v2, as reference: values are JSON, and there is no command."""
    values = {
        "epochs": 3,
        "name": "abc",
        "sagemaker_submit_directory": SOURCE,
        "sagemaker_program": "train.py",
        "sagemaker_container_log_level": 20,
        "sagemaker_job_name": "job",
        "sagemaker_region": "us-east-1",
        **(hyperparameters or {}),
    }
    request = s3_bench.request("pass", **fields)
    del request["AlgorithmSpecification"]["ContainerEntrypoint"]
    del request["InputDataConfig"]
    if "channels" in fields:
        request["InputDataConfig"] = fields["channels"]
    given = {name: json.dumps(value) for name, value in values.items() if value is not None}
    return request | {
        "HyperParameters": given,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/"},
    }


def run(bench: Bench, cloud: Cloud, request: Any, **files: str) -> dict[str, Any]:
    cloud.put_source(**files)
    bench.session.create_training_job(**request)
    return bench.end_of()


def completed(bench: Bench, cloud: Cloud, request: Any, **files: str) -> dict[str, list[str]]:
    """What each host of a job has printed, which completes."""
    description = run(bench, cloud, request, **files)
    assert description["TrainingJobStatus"] == "Completed", (description, bench.lines())
    return bench.lines()


TELLS = """\
import json, os, sys
from helper import WORD
print(WORD, sys.argv[1:], os.path.basename(os.getcwd()))
wanted = ("SM_HPS", "SM_CHANNELS", "SM_CURRENT_HOST", "SM_MODULE_DIR", "SM_USER_ENTRY_POINT")
print(json.dumps({name: os.environ[name] for name in wanted}))
print(open(os.path.join(os.environ["SM_CHANNEL_DIGITS"], "a")).read())
open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w").write("w")
"""


@pytest.mark.long
def test_pip_that_fails_is_told_as_awss_toolkit_tells_it(s3_bench: Bench, cloud: Cloud) -> None:
    request = asked(s3_bench) | {"Environment": {"PIP_NO_INDEX": "1"}}
    description = run(
        s3_bench, cloud, request, train_py="", requirements_txt="no-such-package==1\n"
    )
    reason = description["FailureReason"]
    assert reason.startswith("InstallRequirementsError:\nExitCode 1\nErrorMessage ")
    assert 'No matching distribution found for no-such-package==1"\nCommand' in reason
    assert reason.endswith('-m pip install -r requirements.txt"')


@pytest.mark.long
def test_a_script(s3_bench: Bench, cloud: Cloud) -> None:
    cloud.put(**{"digits/a": "A"})
    request = asked(s3_bench, channels=[channel("digits", "s3://bucket/digits")])
    files = {"helper_py": "WORD = 'hello'", "requirements_txt": "numpy>=1"}
    lines = completed(s3_bench, cloud, request, train_py=TELLS, **files)["algo-1"]

    description = s3_bench.describe()
    assert any("its script mode is emulated" in note for note in description["LocalNotes"])
    (event,) = [line for line in lines if line.startswith("launcher: ")]
    assert event.startswith("launcher: requirements host=algo-1")
    assert event.endswith("file=requirements.txt platform=installed")
    printed = [line for line in lines if line != event]
    assert printed[0] == "hello ['--epochs', '3', '--name', 'abc'] code"
    assert json.loads(printed[1]) == {
        "SM_HPS": '{"epochs":3,"name":"abc"}',
        "SM_CHANNELS": '["digits"]',
        "SM_CURRENT_HOST": "algo-1",
        "SM_MODULE_DIR": SOURCE,
        "SM_USER_ENTRY_POINT": "train.py",
    }
    assert printed[2:] == ["A"]
    assert (
        description["ModelArtifacts"]["S3ModelArtifacts"] == "s3://bucket/job/output/model.tar.gz"
    )


ADDS_UP = """\
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "adds", int(total))
"""


@pytest.mark.slow
def test_torchrun_makes_a_ring_of_each_group_where_none_is_named(
    s3_bench: Bench, cloud: Cloud
) -> None:
    """As the toolkit does with what SDK v2 sends for torch_distributed."""
    request = asked(
        s3_bench,
        {"sagemaker_torch_distributed_enabled": True},
        groups=[group("data", 1), group("train", 2)],
    )
    lines = completed(s3_bench, cloud, request, train_py=ADDS_UP)
    found = {host: " ".join(each) for host, each in lines.items()}
    assert "rank 0 of 1 adds 1" in found["algo-1"]
    assert "rank 0 of 2 adds 2" in found["algo-2"]
    assert "rank 1 of 2 adds 2" in found["algo-3"]
    for host, warns in (("algo-1", True), ("algo-2", True), ("algo-3", False)):
        assert ("distribution_in_every_group" in found[host]) == warns


LOOKS = """\
import json, os
names = ("SM_CURRENT_INSTANCE_GROUP", "SM_DISTRIBUTION_INSTANCE_GROUPS")
master = json.loads(os.environ["SM_TRAINING_ENV"])["is_master"]
print(*(os.environ[name] for name in names), "RANK" in os.environ, master)
"""


@pytest.mark.long
def test_the_script_of_every_group_decides_for_itself(plain_s3_bench: Bench, cloud: Cloud) -> None:
    request = asked(plain_s3_bench, groups=[group("data", 1), group("dnn", 2)])
    assert completed(plain_s3_bench, cloud, request, train_py=LOOKS) == {
        "algo-1": ["data [] False True"],
        "algo-2": ["dnn [] False False"],
        "algo-3": ["dnn [] False False"],
    }


@pytest.mark.long
def test_torchrun_over_a_group_that_is_named(plain_s3_bench: Bench, cloud: Cloud) -> None:
    script = ADDS_UP.replace(
        "dist.init", 'if "RANK" not in os.environ:\n    print("plain")\n    exit()\ndist.init'
    )
    request = asked(
        plain_s3_bench,
        {
            "sagemaker_torch_distributed_enabled": True,
            "sagemaker_distribution_instance_groups": ["train"],
        },
        groups=[group("data", 1), group("train", 2)],
    )
    lines = completed(plain_s3_bench, cloud, request, train_py=script)
    found = {host: " ".join(each) for host, each in lines.items()}
    assert found["algo-1"] == "plain"
    assert "rank 0 of 2 adds 2" in found["algo-2"]
    assert "rank 1 of 2 adds 2" in found["algo-3"]


#: Adds up over MPI where mpirun has started it; `word` is of another file of the source.
MPI_SUM = (
    """\
import os, sys
from helper import WORD
if "OMPI_COMM_WORLD_RANK" not in os.environ:
    print("plain", WORD, sys.argv[1:], flush=True)
    sys.exit()
os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]  # for the sum alone: it is torchrun's
"""
    + ADD_UP
    + """
mpi.MPI_Finalize()
rank, size = (os.environ["OMPI_COMM_WORLD_" + name] for name in ("RANK", "SIZE"))
host, debug = os.environ["SM_CURRENT_HOST"], os.environ.get("NCCL_DEBUG")
print(f"rank={rank} size={size} host={host} sum={total.value} {WORD} {debug} {sys.argv[1:]}")
"""
)


def mpi_request(s3_bench: Bench, **hyperparameters: Any) -> Any:
    values = {"sagemaker_mpi_enabled": True, "sagemaker_mpi_num_of_processes_per_host": 2}
    groups = [group("data", 1), group("train", 2)]
    return asked(s3_bench, values | hyperparameters, groups=groups)


@pytest.mark.long
@needs_mpirun
def test_mpi_over_a_group_that_is_named(s3_bench: Bench, cloud: Cloud) -> None:
    """As with the toolkit, mpirun prints for all ranks, on the group's first host."""
    request = mpi_request(
        s3_bench,
        sagemaker_distribution_instance_groups=["train"],
        sagemaker_mpi_custom_mpi_options="--NCCL_DEBUG WARN",
    )
    # a launcher.py of the user's own, as in AWS's example, hides nothing
    files = {"helper_py": "WORD = 'hello'", "launcher_py": "raise ImportError"}
    found = completed(s3_bench, cloud, request, train_py=MPI_SUM, **files)
    arguments = "['--epochs', '3', '--name', 'abc']"
    assert found["algo-1"] == [f"plain hello {arguments}"]
    # of mpirun itself are others: it warns where a child is faster than its own setpgid
    of_ranks = sorted(line for line in found["algo-2"] if line.startswith("[1,"))
    assert of_ranks == [
        f"[1,{rank}]<stdout>:rank={rank} size=4 host=algo-{2 + rank // 2} sum=6 hello WARN "
        f"{arguments}"
        for rank in range(4)
    ]
    assert found["algo-3"] == []


@pytest.mark.long
@needs_mpirun
def test_mpi_in_each_group_where_none_is_named(plain_s3_bench: Bench, cloud: Cloud) -> None:
    request = mpi_request(plain_s3_bench)
    files = {"train_py": MPI_SUM, "helper_py": "WORD = 'hello'"}
    lines = completed(plain_s3_bench, cloud, request, **files)
    found = {host: "\n".join(each) for host, each in lines.items()}
    assert [found["algo-1"].count(f"size={size} ") for size in (2, 4)] == [2, 0]
    assert [found["algo-2"].count(f"size={size} ") for size in (2, 4)] == [0, 4]
    warned = [host for host, text in found.items() if "distribution_in_every_group" in text]
    assert warned == ["algo-1", "algo-2"]


@pytest.mark.long
@needs_mpirun
def test_a_rank_that_fails_under_mpi(plain_s3_bench: Bench, cloud: Cloud) -> None:
    end = "mpi.MPI_Finalize()"  # the others wait in it
    script = MPI_SUM.replace(end, f"if os.environ['RANK'] == '3':\n    os._exit(7)\n{end}")
    request = mpi_request(plain_s3_bench, sagemaker_distribution_instance_groups=["train"])
    description = run(plain_s3_bench, cloud, request, train_py=script, helper_py="WORD = ''")

    assert description["TrainingJobStatus"] == "Failed"
    assert description["FailureReason"].startswith("ExecuteUserScriptError:\nExitCode 7\n")


@pytest.mark.long
@needs_mpirun
def test_ranks_under_mpi_hear_that_the_job_is_stopped(plain_s3_bench: Bench, cloud: Cloud) -> None:
    script = """\
import os, signal, sys, time
rank = os.environ.get("OMPI_COMM_WORLD_RANK")
def leave(*_):
    time.sleep(1)
    print("saved", rank, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("up", rank, flush=True)
time.sleep(600)
"""
    cloud.put_source(train_py=script)
    request = mpi_request(plain_s3_bench, sagemaker_distribution_instance_groups=["train"])
    plain_s3_bench.session.create_training_job(**request)
    for rank in range(4):
        plain_s3_bench.wait_for_line(f"[1,{rank}]<stdout>:up {rank}")
    plain_s3_bench.stop()

    assert plain_s3_bench.end_of()["TrainingJobStatus"] == "Stopped"
    lines = plain_s3_bench.lines()
    assert sorted(line for line in lines["algo-2"] if "saved" in line) == [
        f"[1,{rank}]<stdout>:saved {rank}" for rank in range(4)
    ]


@pytest.mark.long
def test_mpi_without_mpirun(plain_s3_bench: Bench, cloud: Cloud) -> None:
    request = mpi_request(plain_s3_bench, sagemaker_distribution_instance_groups=["train"])
    request["Environment"] = {"PATH": "/nowhere"}
    description = run(plain_s3_bench, cloud, request, train_py="pass")
    assert description["FailureReason"].startswith("the job needs MPI, and mpirun is not on PATH")


@pytest.mark.long
def test_a_script_that_fails(plain_s3_bench: Bench, cloud: Cloud) -> None:
    description = run(
        plain_s3_bench, cloud, asked(plain_s3_bench), train_py="raise ValueError('no luck')"
    )

    assert description["TrainingJobStatus"] == "Failed"
    reason = description["FailureReason"]
    assert reason.startswith('ExecuteUserScriptError:\nExitCode 1\nErrorMessage "Traceback (most')
    assert "ValueError: no luck" in reason
    assert reason.endswith('train.py --epochs 3 --name abc"')


@pytest.mark.long
def test_an_archive_that_leads_out_of_its_folder(plain_s3_bench: Bench, cloud: Cloud) -> None:
    description = run(plain_s3_bench, cloud, asked(plain_s3_bench), **{"../../../pwned": "x"})

    assert description["FailureReason"].startswith("the archive of the script cannot be unpacked: ")
    assert "outside the destination" in description["FailureReason"]


@pytest.mark.long
def test_a_script_hears_that_the_job_is_stopped(plain_s3_bench: Bench, cloud: Cloud) -> None:
    script = """\
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(0)))
print("up")
time.sleep(600)
"""
    cloud.put_source(train_py=script)
    plain_s3_bench.session.create_training_job(**asked(plain_s3_bench))
    plain_s3_bench.wait_for_line("up")
    plain_s3_bench.stop()

    assert plain_s3_bench.end_of()["TrainingJobStatus"] == "Stopped"
    assert plain_s3_bench.lines()["algo-1"] == ["up", "saved"]


@pytest.mark.long
def test_the_source_may_come_in_a_channel(plain_s3_bench: Bench, cloud: Cloud) -> None:
    """As SDK v2 sends it for a job with network isolation; here with a shell script."""
    inside = "/opt/ml/input/data/code/sourcedir.tar.gz"
    request = asked(
        plain_s3_bench,
        {"sagemaker_submit_directory": inside, "sagemaker_program": "train.sh"},
        channels=[channel("code", SOURCE)],
    )
    lines = completed(plain_s3_bench, cloud, request, train_sh='echo "$@"')
    assert lines == {"algo-1": ["--epochs 3 --name abc"]}


@pytest.mark.long
def test_source_that_is_not_there(plain_s3_bench: Bench, cloud: Cloud) -> None:
    plain_s3_bench.session.create_training_job(**asked(plain_s3_bench))
    description = plain_s3_bench.end_of()
    assert description["TrainingJobStatus"] == "Failed"
    assert description["FailureReason"].startswith("ClientError: cannot download the script: ")
    assert SOURCE in description["FailureReason"]


CONFIG = """
import os
print("TF_CONFIG", os.environ.get("TF_CONFIG"))
"""


@pytest.mark.long
@pytest.mark.parametrize("in_groups", [False, True], ids=["one group", "groups"])
def test_multi_worker_mirrored_has_the_tf_config_of_the_toolkit(
    s3_bench: Bench, cloud: Cloud, in_groups: bool
) -> None:
    flags: dict[str, Any] = {"sagemaker_multi_worker_mirrored_strategy_enabled": True}
    if in_groups:
        flags["sagemaker_distribution_instance_groups"] = ["dnn"]
    groups = [group("data", 1), group("dnn", 2)] if in_groups else []
    request = asked(s3_bench, flags, hosts=2, groups=groups)
    lines = completed(s3_bench, cloud, request, train_py=CONFIG)
    configs = {host: _config(each) for host, each in lines.items()}
    if in_groups:
        assert configs.pop("algo-1") is None
    workers = [config["cluster"]["worker"] for config in configs.values()]
    assert len(set(map(tuple, workers))) == 1
    hosts, ports = zip(*(address.split(":") for address in workers[0]), strict=True)
    if hosts == tuple(configs):  # each has a network of its own
        assert ports == ("8890", "8890")
    else:
        assert len(set(ports)) == 2  # TensorFlow binds every address
    for index, config in enumerate(configs.values()):
        assert config["environment"] == "cloud"
        assert config["task"] == {"index": index, "type": "worker"}


REACHES_SERVERS = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
print("TF_CONFIG", json.dumps(config))
for address in config["cluster"]["ps"]:
    host, port = address.split(":")
    deadline = time.monotonic() + 300
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            break
        except OSError:
            assert time.monotonic() < deadline, address
            time.sleep(0.1)
print("reached all", flush=True)
"""


@pytest.mark.slow
@pytest.mark.library("tensorflow")
def test_parameter_servers_run_beside_the_scripts(plain_s3_bench: Bench, cloud: Cloud) -> None:
    request = asked(plain_s3_bench, {"sagemaker_parameter_server_enabled": True}, hosts=2)
    by_host = completed(plain_s3_bench, cloud, request, train_py=REACHES_SERVERS)
    first, second = (_config(lines) for lines in by_host.values())
    assert first["cluster"] == second["cluster"]
    assert {task: len(hosts) for task, hosts in first["cluster"].items()} == {
        "master": 1,
        "ps": 2,
        "worker": 1,
    }
    assert first["task"] == {"index": 0, "type": "master"}
    assert second["task"] == {"index": 0, "type": "worker"}
    assert all("reached all" in lines for lines in by_host.values())


FIT_OF_KERAS = """
import numpy as np
import tensorflow as tf
import keras

def train():
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(loss="mse", optimizer="sgd")
    model.fit(np.ones((8, 4)), np.ones((8, 1)), batch_size=4)
"""


@pytest.mark.slow
@pytest.mark.library("tensorflow")
def test_a_fit_of_keras_3_fails_with_the_ways_out(plain_s3_bench: Bench, cloud: Cloud) -> None:
    flags = {"sagemaker_multi_worker_mirrored_strategy_enabled": True}
    files = {"train_py": "import model\nmodel.train()\n", "model_py": FIT_OF_KERAS}
    description = run(plain_s3_bench, cloud, asked(plain_s3_bench, flags, hosts=2), **files)
    reason = description["FailureReason"]
    assert reason.startswith("ExecuteUserScriptError:\nExitCode 1\n")
    assert "PerReplica" in reason
    assert reason.endswith("or train Keras 3 on JAX (distribution: jax))")


def _config(lines: list[str]) -> Any:
    (line,) = [line for line in lines if line.startswith("TF_CONFIG ")]
    text = line.removeprefix("TF_CONFIG ")
    return None if text == "None" else json.loads(text)


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        (
            {"sagemaker_submit_directory": None},
            "sagemaker_program is set, but sagemaker_submit_dir",
        ),
        ({"sagemaker_submit_directory": "src"}, "'src' is neither an archive in S3 nor a path"),
        (
            {"sagemaker_distributed_dataparallel_enabled": True},
            r"needs the library smdistributed\.dataparallel",
        ),
        (
            {"sagemaker_pytorch_xla_multi_worker_enabled": True},
            "needs PyTorch/XLA of the training compiler",
        ),
        ({"mp_parameters": {"partitions": 2}}, r"needs the library smdistributed\.modelparallel"),
        ({"sagemaker_program": None}, "no ContainerEntrypoint"),
    ],
    ids=str,
)
def test_refused(plain_bench: Bench, hyperparameters: dict[str, Any], message: str) -> None:
    with pytest.raises(PlatformError, match=message):
        plain_bench.session.create_training_job(**asked(plain_bench, hyperparameters))
    assert not plain_bench.job_folder().exists()


@pytest.mark.parametrize(
    ("image", "hyperparameter", "instead"),
    [
        ("tensorflow-training:2.19", "mp_parameters", "another framework: JAX, which shards"),
        (
            "pytorch-training:2.6",
            "mp_parameters",
            "Launcher's pipelines: distribution=ModelParallel(",
        ),
        (
            "tensorflow-training:2.19",
            "sagemaker_distributed_dataparallel_enabled",
            'distribution={"multi_worker_mirrored_strategy": ',
        ),
        ("pytorch-training:2.6", "sagemaker_distributed_dataparallel_enabled", "torchrun: "),
    ],
)
def test_what_to_use_in_place_of_awss_libraries_depends_on_the_framework(
    plain_bench: Bench, image: str, hyperparameter: str, instead: str
) -> None:
    request = asked(plain_bench, {hyperparameter: {"enabled": True}})
    request["AlgorithmSpecification"]["TrainingImage"] = f"1.dkr.ecr/{image}"
    with pytest.raises(PlatformError, match=re.escape(f"run it on SageMaker, or use {instead}")):
        plain_bench.session.create_training_job(**request)
