"""The GPUs of this machine that each host of a local job sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench import Bench, group, host_of
from test_local_hosts import seen

from launcher.client.sessions import LocalHost, divide_gpus
from launcher.shared import gpu_models, visible_gpus

SCRIPT = """
print(json.dumps(os.environ.get("CUDA_VISIBLE_DEVICES")))
"""
NVIDIA_SMI = """#!/bin/sh
echo "GPU 0: NVIDIA A10G (UUID: GPU-0a1b2c)"
echo "GPU 1: NVIDIA A10G (UUID: GPU-3d4e5f)"
"""


def hosts(*types: str) -> list[LocalHost]:
    return [host_of(number, each) for number, each in enumerate(types, start=1)]


def divided(types: list[str], gpus: list[str]) -> list[str | None]:
    found = divide_gpus(members := hosts(*types), gpus)
    return [found.variables(host).get("CUDA_VISIBLE_DEVICES") for host in members]


@pytest.mark.parametrize(
    ("types", "gpus", "expected"),
    [
        (["ml.g5.xlarge"], ["0", "1"], ["0,1"]),
        (["ml.g5.xlarge", "ml.g5.xlarge"], ["0", "1"], ["0", "1"]),
        (["ml.c5.xlarge", "ml.g5.xlarge", "ml.p4d.24xlarge"], ["0", "1", "2"], ["", "0", "1"]),
        (["local_gpu", "local"], ["GPU-0a1b2c"], ["GPU-0a1b2c", ""]),
        (["ml.c5.xlarge"], ["0"], [""]),
        (["ml.g5.xlarge", "ml.g5.xlarge"], ["0"], ["", ""]),
        (["ml.g5.xlarge"], [], [None]),
    ],
)
def test_hosts_with_gpus_get_the_same_number_of_them(
    types: list[str], gpus: list[str], expected: list[str | None]
) -> None:
    assert divided(types, gpus) == expected


def test_too_few_gpus_are_said(tmp_path: Path) -> None:
    assert divide_gpus(hosts("ml.g5.xlarge"), ["0"]).note is None
    assert divide_gpus(hosts("ml.c5.xlarge"), ["0"]).note is None
    assert divide_gpus(hosts("ml.g5.xlarge", "local_gpu"), ["0"]).note == (
        "this machine has 1 GPU for 2 hosts with GPUs: they run without"
    )


def test_each_host_of_a_job_sees_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "process", platform_environment={"CUDA_VISIBLE_DEVICES": "3,5"})
    gpu_group: dict[str, Any] = {**group("train_group", 2), "InstanceType": "ml.g5.xlarge"}

    bench.run(SCRIPT, groups=[group("data_group", 1), gpu_group])

    assert seen(bench) == {"algo-1": "", "algo-2": "3", "algo-3": "5"}


def test_the_jobs_own_variable_wins(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "process", platform_environment={"CUDA_VISIBLE_DEVICES": "3,5"})

    bench.run(SCRIPT, Environment={"CUDA_VISIBLE_DEVICES": "1"})

    assert seen(bench) == {"algo-1": "1"}


def test_gpus_are_counted_by_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert visible_gpus({}) == ("0", "1")
    assert gpu_models() == ("NVIDIA A10G", "NVIDIA A10G")
    program.unlink()
    assert visible_gpus({}) == ()


@pytest.mark.parametrize(
    ("named", "expected"),
    [("", ()), ("0", ("0",)), ("1, 0", ("1", "0")), ("0,-1,1", ("0",)), ("-1", ())],
)
def test_a_variable_names_the_gpus(named: str, expected: tuple[str, ...]) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": named}) == expected
