"""Hyperparameters that a script's parser would not take, and hosts that look for each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.client.request import SourceTree
from launcher.client.spec import JobSpec, check

PARSER = """
import argparse
from argparse import BooleanOptionalAction

parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
parser.add_argument("-c", "--compile", action=BooleanOptionalAction)
parser.add_argument("--n", type=int)
parser.add_argument("-k", "--k", type=int)
parser.add_argument("--shuffle", type=bool, default=True)
parser.add_argument("--lr", type=float)
args = parser.parse_args()
"""


def warnings(folder: Path, script: str, **fields: object) -> tuple[str, ...]:
    (folder / "train.py").write_text(script)
    job = {"instance_type": "ml.c5.xlarge", "instance_count": 1, **fields}
    spec = JobSpec(entry_point="train.py", source_dir=str(folder), **job)  # type: ignore[arg-type]
    return check(spec, SourceTree(spec))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"amp": True},
            ['"amp" is passed as --amp True, but train.py, line 6, takes no value', "type=lambda"],
        ),
        ({"amp": False}, ["passed as --amp False, but train.py, line 6, takes no value"]),
        ({"compile": True}, ["passed as --compile True, but train.py, line 7, takes no value"]),
        ({"n": 120}, ["passed as -n", "train.py, line 8, takes --n", 'add_argument("-n", "--n"']),
        ({"lr": None}, ['"lr" is null, which the script gets as an empty text', "leave it out"]),
        ({"shuffle": False}, ["--shuffle False, which train.py, line 10, reads as true"]),
    ],
    ids=["store_true", "false", "optional", "one letter", "null", "bool"],
)
def test_what_the_script_would_not_take_is_a_warning(
    tmp_path: Path, given: dict[str, object], words: list[str]
) -> None:
    (warning,) = warnings(tmp_path, PARSER, hyperparameters=given)
    assert all(each in warning for each in words)


@pytest.mark.parametrize(
    "given",
    [
        {"k": 3},
        {"lr": 0.1},
        {"shuffle": True},
        {"unknown": True},
        {"c": "x"},
    ],
)
def test_other_hyperparameters_have_none(tmp_path: Path, given: dict[str, object]) -> None:
    assert warnings(tmp_path, PARSER.replace('"-c", ', ""), hyperparameters=given) == ()


def test_a_parser_of_another_library_is_not_judged(tmp_path: Path) -> None:
    other = PARSER.replace("argparse", "configargs")
    assert warnings(tmp_path, other, hyperparameters={"amp": True}) == ()


@pytest.mark.parametrize(
    ("script", "is_warned"),
    [
        ("import torch", True),
        ("import jax\njax.distributed.initialize()", False),
        ("import os, json\nhosts = json.loads(os.environ['SM_HOSTS'])", False),
        ("import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()", False),
        ("import horovod.torch as hvd\nhvd.init()", False),
        ("import ray\nray.init(address='auto')", False),
    ],
    ids=["alone", "jax", "SM_HOSTS", "tf", "horovod", "ray"],
)
def test_hosts_without_a_distribution(tmp_path: Path, script: str, is_warned: bool) -> None:
    found = warnings(tmp_path, script, instance_count=2)
    assert ["2 train hosts, but no distribution" in each for each in found] == [True] * is_warned
