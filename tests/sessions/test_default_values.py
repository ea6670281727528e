"""Defaults from files: Launcher's own and SDK v2's, and the jobs that get them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from launcher import Estimator
from launcher.client.cli.verbs.check import check
from launcher.client.doctor import run_checks
from launcher.client.sessions import (
    AwsSession,
    LocalSession,
    applied_defaults,
    completed,
    defaults_files,
    read_defaults,
    with_defaults,
)
from launcher.client.spec import JobSpec
from launcher.errors import SpecError

ROLE = "arn:aws:iam::111122223333:role/Training"
V2 = {
    "SchemaVersion": "1.0",
    "SageMaker": {
        "PythonSDK": {
            "Modules": {
                "Session": {"DefaultS3Bucket": "v2-bucket", "DefaultS3ObjectKeyPrefix": "v2"}
            }
        },
        "TrainingJob": {
            "RoleArn": "arn:v2",
            "VpcConfig": {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]},
            "OutputDataConfig": {"KmsKeyId": "out-key"},
            "ResourceConfig": {"VolumeKmsKeyId": "disk-key"},
            "EnableNetworkIsolation": True,
            "EnableInterContainerTrafficEncryption": True,
            "Environment": {"A": "1"},
            "Tags": [{"Key": "team", "Value": "v2"}],
        },
        "ProcessingJob": {"RoleArn": "arn:other"},
    },
}
Write = Callable[[str, Any], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write one of the files by its name; all are below this folder."""
    places = {
        "own": tmp_path / "home" / "config.yaml",
        "user": tmp_path / "user" / "sagemaker" / "config.yaml",
        "admin": tmp_path / "admin" / "sagemaker" / "config.yaml",
    }
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "admin"))
    for kind in ("USER", "ADMIN"):
        monkeypatch.delenv(f"SAGEMAKER_{kind}_CONFIG_OVERRIDE", raising=False)

    def to(name: str, content: Any) -> Path:
        place = places[name]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return place

    return to


def values() -> dict[str, Any]:
    return {name: default.value for name, default in read_defaults().items()}


def test_without_files_nothing_has_a_default(write: Write) -> None:
    assert values() == {}


def test_the_first_file_that_has_a_value_wins(write: Write) -> None:
    own = write("own", {"role": ROLE})
    user = write("user", V2)
    admin_job = {"RoleArn": "arn:admin", "ProfilerConfig": {"DisableProfiler": True}}
    write("admin", {"SchemaVersion": "1.0", "SageMaker": {"TrainingJob": admin_job}})
    defaults = read_defaults()
    assert (defaults["role"].value, defaults["role"].file) == (ROLE, own)
    assert (defaults["subnets"].value, defaults["subnets"].file) == (["subnet-1"], user)
    assert defaults["subnets"].key == "SageMaker.TrainingJob.VpcConfig.Subnets"
    assert defaults["disable_profiler"].value is True
    assert values()["tags"] == {"team": "v2"}


def test_a_file_that_is_named_takes_the_place_of_the_usual_one(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("user", V2)
    other = tmp_path / "other"
    other.mkdir()
    named = {"SchemaVersion": "1.0", "SageMaker": {"TrainingJob": {"RoleArn": "arn:named"}}}
    (other / "config.yaml").write_text(yaml.safe_dump(named))
    monkeypatch.setenv("SAGEMAKER_USER_CONFIG_OVERRIDE", str(other))  # a folder, as in v2
    assert values() == {"role": "arn:named"}
    monkeypatch.setenv("SAGEMAKER_USER_CONFIG_OVERRIDE", "s3://bucket/config.yaml")
    with pytest.raises(SpecError, match="there is no such file of defaults"):
        read_defaults()


def assert_refused(place: Path, says: str) -> None:
    with pytest.raises(SpecError, match=says) as refused:
        read_defaults()
    assert str(place) in str(refused.value)


def test_a_folder_in_the_place_of_a_file_is_refused(write: Write, tmp_path: Path) -> None:
    place = tmp_path / "home" / "config.yaml"
    place.mkdir(parents=True)
    assert_refused(place, "is not a file")


@pytest.mark.parametrize("place", ["home/config.yaml", "admin/sagemaker/config.yaml", "named"])
def test_a_file_in_a_folder_that_may_not_be_searched_is_reported(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Permissions do not stop root, who may run the tests: the refusal is made up."""
    refused, stat = str(tmp_path / place), Path.stat

    def refuse(path: Path, **options: Any) -> os.stat_result:
        if str(path) == refused:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), refused)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refuse)
    if place == "named":
        monkeypatch.setenv("SAGEMAKER_USER_CONFIG_OVERRIDE", refused)
    for words in ([], ["-o", "json"]):
        shown = CliRunner().invoke(check, ["--config", *words], catch_exceptions=False)
        assert shown.exit_code == 2
        assert "the file of defaults cannot be read: Permission denied" in shown.stderr
        assert f"where: {refused}" in shown.stderr


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("own", {"rol": "x"}, 'did you mean "role"'),
        ("own", {"role": 7}, "7 is not text"),
        ("own", {"subnets": "subnet-1"}, "is not a list of texts"),
        ("own", {"enable_network_isolation": "yes"}, "is not true or false"),
        ("own", {"tags": {"a": 1}}, "is not a mapping of texts"),
        ("own", "- a", "is not a mapping"),
        ("own", "a: [", "cannot be read"),
        ("user", {"SchemaVersion": "2.0"}, "write SchemaVersion: '1.0'"),
        ("user", "role: " + "[" * 5_000, "more than 50 levels"),
        ("user", {**V2, "SageMaker": {"TrainingJob": {"Tags": "x"}}}, "a mapping of texts"),
    ],
)
def test_a_bad_file_is_reported_with_its_place(
    write: Write, name: str, content: Any, says: str
) -> None:
    assert_refused(write(name, content), says)


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(BOMB + "role: *a11", "more than 20,000 values", id="aliases of aliases"),
        pytest.param(MERGES, "more than 20,000 values", id="merges of merges"),
        pytest.param("role: &r [*r]", "a value contains itself", id="a list in itself"),
        pytest.param("role: " + "[" * 5_000, "more than 50 levels", id="brackets"),
        pytest.param("# x\n" * (1 << 20), "more than 512 KiB", id="4 MB"),
        pytest.param("role: " + "9" * 5_000, "is no tag:yaml.org,2002:int", id="5,000 digits"),
        pytest.param("role: 2024-99-99", "is no tag:yaml.org,2002:timestamp", id="month 99"),
        pytest.param("role: !!bool perhaps", "'perhaps' is no tag", id="no truth by its tag"),
        pytest.param("role: !!timestamp soon", "'soon' is no tag", id="no date by its tag"),
    ],
)
def test_a_hostile_file_is_refused_in_words(write: Write, content: str, says: str) -> None:
    assert_refused(write("own", content), says)


def test_values_are_those_of_yaml_11_with_merges(write: Write) -> None:
    write("own", "tags: &t {a: b}\nenvironment: {<<: *t, c: d}\ndisable_profiler: on\n")
    assert values() == {
        "disable_profiler": True,
        "environment": {"a": "b", "c": "d"},
        "tags": {"a": "b"},
    }


def test_every_problem_of_all_files_is_reported_at_once(write: Write) -> None:
    write("own", {"rol": "x", "role": 7})
    write("admin", {"SchemaVersion": "9"})
    with pytest.raises(SpecError) as refused:
        read_defaults()
    assert len(refused.value.problems) == 3


# Jobs ------------------------------------------------------------------------------------------


def job(**fields: Any) -> JobSpec:
    machines = {"instance_type": "ml.c5.xlarge", "instance_count": 1}
    return JobSpec(entry_point="train.py", **{**machines, **fields})


def test_a_job_gets_what_it_leaves_open(write: Write) -> None:
    write("user", V2)
    assert with_defaults(job(), read_defaults()) == job(
        role="arn:v2",
        subnets=("subnet-1",),
        security_group_ids=("sg-1",),
        output_kms_key="out-key",
        volume_kms_key="disk-key",
        enable_network_isolation=True,
        encrypt_inter_container_traffic=True,
        environment={"A": "1"},
        tags={"team": "v2"},
    )


def test_values_of_a_job_are_kept_and_tags_are_merged(write: Write) -> None:
    write("user", V2)
    own = job(role=ROLE, environment={"B": "2"}, tags={"team": "own", "cost": "7"})
    made = with_defaults(own, read_defaults())
    assert (made.role, made.environment) == (ROLE, {"B": "2"})
    assert made.tags == {"team": "own", "cost": "7"}


def test_false_takes_the_place_of_true(write: Write, tmp_path: Path) -> None:
    write("user", V2)
    write("own", {"disable_profiler": True})
    fields = ("enable_network_isolation", "encrypt_inter_container_traffic", "disable_profiler")
    made = with_defaults(job(**dict.fromkeys(fields, False)), read_defaults())
    assert [getattr(made, field) for field in fields] == [False] * 3
    estimator = Estimator("train.py", enable_network_isolation=False, disable_profiler=False)
    made = with_defaults(estimator.spec, read_defaults())
    assert [getattr(made, field) for field in fields] == [False, True, False]

    job_file = tmp_path / "job.yaml"
    job_file.write_text("entry_point: train.py\nenable_network_isolation: false\n")
    answer = json.loads(CliRunner().invoke(check, ["--config", str(job_file), "-o", "json"]).stdout)
    (row,) = [each for each in answer["values"] if each["field"] == "enable_network_isolation"]
    assert row == {"field": row["field"], "value": False, "source": str(job_file)}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"algorithm_arn": "mine", "entry_point": ""}, "image_uri"),
        ({"framework": "pytorch", "framework_version": "2.2"}, "image_uri"),
        ({"instance_type": "ml.g5.xlarge"}, "volume_kms_key"),
    ],
)
def test_a_default_that_does_not_go_with_the_job_is_left_out(
    write: Write, fields: dict[str, Any], name: str
) -> None:
    write("own", {"image_uri": "image:1", "volume_kms_key": "key"})
    assert name not in applied_defaults(JobSpec(**{**vars_of(job()), **fields}), read_defaults())


def vars_of(spec: JobSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("entry_point", "instance_type")}


def test_only_jobs_for_aws_get_defaults(write: Write, tmp_path: Path) -> None:
    write("own", {"role": ROLE})
    assert completed(job(), AwsSession(), offline=True).role == ROLE
    assert completed(job(), LocalSession(tmp_path)).role is None


# launcher check --config --------------------------------------------------------------------------


def test_check_config_shows_each_value_and_its_file(write: Write, tmp_path: Path) -> None:
    own = write("own", {"role": ROLE, "tags": {"team": "vision"}})
    answer = json.loads(CliRunner().invoke(check, ["--config", "-o", "json"]).stdout)
    rows = {row["field"]: row for row in answer["values"]}
    assert rows["role"] == {"field": "role", "value": ROLE, "source": f"{own}: role"}
    assert rows["subnets"]["source"] == "no default"
    assert [file["file"] for file in answer["files"]] == [str(f.path) for f in defaults_files()]

    job_file = tmp_path / "job.yaml"
    job_file.write_text("entry_point: train.py\ninstance_type: local\ntags: {cost: '7'}\n")
    answer = json.loads(CliRunner().invoke(check, ["--config", str(job_file), "-o", "json"]).stdout)
    rows = {row["field"]: row for row in answer["values"]}
    assert rows["tags"]["value"] == {"team": "vision", "cost": "7"}
    assert rows["tags"]["source"] == f"{job_file}, {own}: tags"
    assert rows["role"]["source"] == f"{own}: role"
    assert rows["subnets"]["source"] == "the job leaves it open"


@pytest.mark.long
def test_launcher_check_takes_a_job_for_aws_with_its_defaults(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "train.py").touch()
    job_file = tmp_path / "job.yaml"
    job_file.write_text(
        "entry_point: train.py\ninstance_type: ml.c5.xlarge\ninstance_count: 1\n"
        "output_path: s3://bucket/out\nimage_uri: image:1\n"
    )
    lacking = [f.where for f in run_checks(job_file, session="aws").findings if f.where == "role"]
    write("own", {"role": ROLE})
    found = [f.where for f in run_checks(job_file, session="aws").findings if f.where == "role"]
    assert (len(lacking), found) == (1, [])


OPENED = """\
import sys
opened = []
sys.addaudithook(lambda event, words: opened.append(words[0]) if event == "open" else None)
from launcher.client.cli import main
try:
    main(["check", "--cloud", *sys.argv[1:]])
except SystemExit:
    print("opened", sum(str(file).endswith("home/config.yaml") for file in opened), file=sys.stderr)
"""


@pytest.mark.long
def test_launcher_check_opens_a_file_of_defaults_once(
    write: Write, tmp_path: Path, offline: pytest.MonkeyPatch
) -> None:
    write("own", {"role": ROLE})
    offline.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    (tmp_path / "train.py").write_text("")
    job = tmp_path / "job.yaml"
    job.write_text("entry_point: train.py\nsource_dir: .\ninstance_type: ml.g5.xlarge\n")
    asked = subprocess.run(
        [sys.executable, "-c", OPENED, str(job)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=540,
        check=True,
    )
    assert asked.stderr.splitlines()[-1] == "opened 1"


def test_a_file_that_changes_is_read_again(write: Write) -> None:
    write("own", {"role": "first"})
    assert read_defaults()["role"].value == "first"
    write("own", {"role": "second one"})
    assert read_defaults()["role"].value == "second one"
