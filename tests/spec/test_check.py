"""Rules that need files, jobs made in Python, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from launcher.client.spec import (
    DataParallel,
    DataService,
    InstanceGroup,
    JobSpec,
    ModelParallel,
    TrainingInput,
    check,
)
from launcher.errors import ParallelError, Problem, SpecError
from launcher.shared import PartitionFile

GROUPS = (
    InstanceGroup("data_group", "ml.c5.2xlarge", 2),
    InstanceGroup("train_group", "ml.g4dn.xlarge"),
)
LOCAL = {"instance_groups": [replace(group, instance_type="local") for group in GROUPS]}
VPC = {"subnets": ["subnet-1"], "security_group_ids": ["sg-1"]}
GOOD = JobSpec(
    entry_point="train.py",
    source_dir=".",
    instance_groups=GROUPS,
    distribution=DataParallel(),
    data_service=DataService(datasets=("pipeline:train_set",)),
    inputs={"digits": TrainingInput("s3://my-bucket/digits", instance_groups=("data_group",))},
)


@dataclass(frozen=True)
class Files:
    """The files that travel, by path."""

    texts: Mapping[str, str]

    def exists(self, path: str) -> bool:
        return path in self.texts

    @property
    def paths(self) -> Iterable[str]:
        return self.texts

    def read_text(self, path: str) -> str:
        return self.texts[path]


FILES = Files({"train.py": "", "pipeline.py": "def train_set(): ..."})


def test_a_good_job_passes_without_a_word() -> None:
    assert check(GOOD, FILES) == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("def train_set(): ...", id="function"),
        pytest.param("class train_set: ...", id="class"),
        pytest.param("from elsewhere import train_set", id="import"),
        pytest.param("from elsewhere import a as train_set", id="import as"),
        pytest.param("from elsewhere import *", id="import of all"),
        pytest.param("train_set = lambda: ...", id="assignment"),
        pytest.param("a, train_set = 1, 2", id="one of several"),
        pytest.param("train_set: object = len", id="annotated"),
        pytest.param("if True:\n  def train_set(): ...", id="in an if"),
        pytest.param(
            "try:\n  import x\nexcept ImportError:\n  def train_set(): ...", id="in a try"
        ),
        pytest.param("with suppress(OSError) as train_set: ...", id="of a with"),
        pytest.param("print(train_set := len)", id="within an expression"),
        pytest.param("globals()['train_set'] = len", id="by globals()"),
        pytest.param("def __getattr__(name): ...", id="by the module's __getattr__"),
        pytest.param("raise SystemExit('imported')\ndef train_set(): ...", id="never imported"),
    ],
)
def test_a_dataset_may_be_any_name_of_its_module(text: str) -> None:
    assert check(GOOD, Files({"train.py": "", "pipeline.py": text})) == ()


def test_a_dataset_may_live_in_a_package() -> None:
    spec = GOOD.replace(data_service=DataService(datasets=("data.pipeline:make", "data:load")))
    files = Files(
        {
            "train.py": "",
            "data/__init__.py": "def load(): ...",
            "data/pipeline.py": "def make(): ...",
        }
    )

    assert check(spec, files) == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("", 'pipeline.py defines no "train_set"', id="an empty module"),
        pytest.param("class A:\n  def train_set(self): ...", "defines no", id="a method"),
        pytest.param("a = [1 for train_set in []]", "defines no", id="within a comprehension"),
        pytest.param("def train_set(:", "pipeline.py, line 1, is not valid Python", id="syntax"),
        pytest.param("x = '\0'", "pipeline.py", id="null bytes"),
    ],
)
def test_a_missing_dataset_is_reported(text: str, what: str) -> None:
    with pytest.raises(SpecError) as raised:
        check(GOOD, Files({"train.py": "", "pipeline.py": text}))
    (problem,) = raised.value.problems
    assert what in problem.what
    assert problem.where == "data_service.datasets[0]"


def test_a_script_that_this_python_cannot_read_is_a_warning() -> None:
    (warning,) = check(GOOD, Files({"train.py": "def f(:", "pipeline.py": "train_set = 1"}))

    assert warning.startswith("train.py, line 1, is not valid Python here")


class UnreadableFiles:
    """A source that cannot be taken along at all."""

    problem = Problem(what="the link x leaves the source folder", where="x", fix="copy it")

    def exists(self, path: str) -> bool:
        raise SpecError([self.problem])

    @property
    def paths(self) -> Iterable[str]:
        raise SpecError([self.problem])

    def read_text(self, path: str) -> str:
        raise SpecError([self.problem])

    @property
    def partition(self) -> PartitionFile:
        raise ParallelError("cuts.json cannot be read")


def test_problems_of_files_are_reported_with_all_others() -> None:
    cut = ModelParallel(partition_file="cuts.json")
    with pytest.raises(SpecError) as raised:
        check(GOOD.replace(volume_size=0, distribution=cut), UnreadableFiles())

    assert [problem.what for problem in raised.value.problems] == [
        "volume_size is 0",
        "cuts.json cannot be read",
        "the link x leaves the source folder",
    ]


@pytest.mark.parametrize(
    ("changes", "what", "where"),
    [
        ({"max_run": "60"}, '"60" is not a whole number', "max_run"),
        ({"environment": {"A": 1}}, "1 is not text", "environment.A"),
        (
            {"instance_groups": [replace(GROUPS[0], instance_count="2"), GROUPS[1]]},
            '"2" is not a whole number',
            "instance_groups[0].instance_count",
        ),
        (
            {"hyperparameters": {"f": len}},
            'the hyperparameter "f" is not JSON',
            "hyperparameters.f",
        ),
        ({"hyperparameters": {1: 2}}, "the key 1 is not text", "hyperparameters.1"),
        (
            {"data_service": {"datasets": ["pipeline:train_set"]}},
            "data_service is not of its declared type",
            "data_service",
        ),
        ({"distribution": "horovod"}, '"horovod" is not a distribution', "distribution"),
        (
            {"metric_definitions": [{"Name": "loss", "Regexp": "(x)"}]},
            '"Regexp" is not a field of a metric definition',
            "metric_definitions[0].Regexp",
        ),
    ],
)
def test_a_job_made_in_python_is_held_to_the_declared_types(
    changes: dict[str, Any], what: str, where: str
) -> None:
    with pytest.raises(SpecError) as raised:
        check(GOOD.replace(**changes), FILES)
    told = [problem for problem in raised.value.problems if what in problem.what]
    assert [problem.where for problem in told] == [where]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param(
            {"data_service": {"datasets": 3}},
            ["3 is not a list"],
            id="what cannot be read is told once",
        ),
        pytest.param(
            {"data_service": {"datasets": ["pipeline:train_set"]}, "max_run": "60"},
            ["data_service is not of its declared type", '"60" is not a whole number'],
            id="one unreadable field hides no other",
        ),
    ],
)
def test_a_dictionary_in_place_of_a_class(changes: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(SpecError) as raised:
        check(GOOD.replace(**changes), FILES)
    said = [problem.what for problem in raised.value.problems]
    assert [each[: len(start)] for each, start in zip(said, told, strict=True)] == told


def test_the_lines_of_a_document_are_known_to_every_later_check() -> None:
    spec = JobSpec.from_yaml(
        "entry_point: train.py\nsource_dir: .\ninstance_type: ml.c5.xlarge\nvolume_size: 0\n"
    )

    with pytest.raises(SpecError) as raised:
        check(spec, FILES)
    assert raised.value.problems[0].where == "line 4 (volume_size)"


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        *(
            pytest.param(
                {"data_service": DataService(engine="tf", **option), **VPC},
                f"{next(iter(option))} does nothing with the engine 'tf'",
                id=f"tf.data's service has no {next(iter(option))}",
            )
            for option in (
                {"datasets": ["pipeline:train_set"]},
                {"checksums": True},
                {"metrics_port": 9400},
                {"prefetch_bytes": 2**24},
            )
        ),
        pytest.param(
            {"data_service": DataService(engine="tf")},
            "tf.data's servers have no authentication",
            id="servers that others may reach",
        ),
    ],
)
def test_what_may_be_meant_is_a_warning(changes: dict[str, Any], warning: str) -> None:
    (told,) = check(GOOD.replace(**changes), FILES)

    assert told.startswith(warning)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"instance_groups": (), "instance_type": "local"}, id="one local host"),
        *(
            pytest.param({"data_service": DataService(engine="tf"), **guard}, id=id)
            for id, guard in {
                "tf.data's servers in a VPC": VPC,
                "tf.data's servers that AWS isolates": {"enable_network_isolation": True},
                "tf.data's servers on this machine": LOCAL,
            }.items()
        ),
        pytest.param(
            LOCAL,
            id="local groups",
        ),
        pytest.param(
            {"instance_groups": GROUPS[1:], "inputs": {}},
            id="datasets that `check --data` reads",
        ),
        pytest.param(
            {
                "inputs": {
                    "a": TrainingInput("s3://bucket/a", instance_groups=GROUPS),
                    "b": "s3://bucket",
                }
            },
            id="some channels routed; the request completes the rest",
        ),
        pytest.param({"role": "MyRole"}, id="role by name"),
        pytest.param({"role": "arn:aws-cn:iam::123456789012:role/path/MyRole"}, id="role by ARN"),
        pytest.param(
            {"tags": {"Équipe": "vision & co".replace("&", "+")}}, id="a tag with accents"
        ),
    ],
)
def test_what_is_allowed(changes: dict[str, Any]) -> None:
    if "instance_type" in changes:
        changes = {**changes, "inputs": {}}

    assert check(GOOD.replace(**changes), FILES) == ()
