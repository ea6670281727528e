"""A job that the rules accept is accepted all the way: by YAML, by boto's model, and by a host."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from job_strategies import job_specs, trainings

from launcher import Job, LocalSession
from launcher.client.request import SourceTree, build_document, build_request, prepare
from launcher.client.sessions import check_request, place
from launcher.client.spec import JobSpec, check, job_schema, read_value
from launcher.client.submit import send

REPORT = """\
import json, os, sys
print("RAN", json.dumps([os.environ["CURRENT_HOST"], os.environ["SM_HPS"], sys.argv[1:],
                         {k: v for k, v in os.environ.items() if k.startswith("USER_")}]))
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of the code and of the channels."""
    source, data = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("data")
    (source / "train.py").write_text(REPORT)
    (source / "pipeline.py").write_text("def train_set(): ...\ndef test_set(): ...\n")
    for name in "abc":
        (data / name).write_text(name)
    return source, data


@pytest.fixture(scope="module")
def model() -> Shape:
    """What boto knows of a CreateTrainingJob request."""
    service = ServiceModel(Loader().load_service_model("sagemaker", "service-2"), "sagemaker")
    return service.operation_model("CreateTrainingJob").input_shape


def violations(shape: Shape, value: Any, path: str = "") -> Iterator[str]:
    """What boto's own validator does not look at: the longest, the patterns, the words."""
    if shape.type_name == "structure":
        for name, part in value.items():
            yield from violations(shape.members[name], part, f"{path}.{name}")
    elif shape.type_name == "list":
        for index, part in enumerate(value):
            yield from violations(shape.member, part, f"{path}[{index}]")
    elif shape.type_name == "map":
        for name, part in value.items():
            yield from violations(shape.key, name, f"{path} key")
            yield from violations(shape.value, part, f"{path}.{name}")
    size = value if isinstance(value, int | float) else len(value)
    if size > shape.metadata.get("max", size):
        yield f"{path}: {size} is more than {shape.metadata['max']}"
    if isinstance(value, str):
        yield from _text_violations(shape, value, path)


def _text_violations(shape: Shape, value: str, path: str) -> Iterator[str]:
    # Java's classes of characters; \w has the letters and digits of all scripts, as they have.
    pattern = shape.metadata.get("pattern", r"[\S\s]*").replace(r"\p{L}\p{Z}\p{N}", r"\w\s")
    pattern = pattern.replace(r"\p{Alnum}", "a-zA-Z0-9")
    words = shape.metadata.get("enum", [])
    is_uri = value.startswith("file://")  # of this machine: these jobs run here
    if words and value not in words and not value.startswith("local"):
        yield f"{path}: {value!r} is not one of {words[:5]}..."
    if not is_uri and not re.fullmatch(pattern, value):
        yield f"{path}: {value!r} does not match {pattern}"


@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_the_rules_accept_is_a_request_that_sagemaker_accepts(
    places: tuple[Path, Path], model: Shape, data: st.DataObject
) -> None:
    spec = data.draw(job_specs(*places)).replace(**data.draw(trainings))
    check(spec, SourceTree(spec))
    request = build_request(spec, place(spec, LocalSession("/tmp/never-made"), "job-1"))

    report = ParamValidator().validate(request, model)
    assert not report.has_errors(), report.generate_report()
    assert list(violations(model, request)) == []
    build_document(spec)
    code = [c for c in request["InputDataConfig"] if c["ChannelName"] == "code"]
    check_request(request, uploads=[code[0]["DataSource"]["S3DataSource"]["S3Uri"] + "launch.py"])


@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_the_rules_accept_survives_yaml(
    places: tuple[Path, Path], data: st.DataObject
) -> None:
    spec = data.draw(job_specs(*places)).replace(**data.draw(trainings))
    text = spec.to_yaml() + "\n"
    jsonschema.validate(read_value(text), job_schema())
    read = JobSpec.from_yaml(text)
    assert read == spec
    assert (
        check(read, SourceTree(read)) == check(spec, SourceTree(spec)) or read.where != spec.where
    )


_numbers = itertools.count(1)


def run(spec: JobSpec, home: Path) -> None:
    """Run a generated job: each train host's script gets the values that the spec has."""
    session, name = LocalSession(home, "process"), f"generated-{next(_numbers)}"
    submission = prepare(spec, place(spec, session, name))
    send(submission, session)
    job = Job(name, session, poll_seconds=0.05).wait()
    job.raise_for_status()

    document = build_document(spec)
    trains = {name for name, role in document.roles.items() if role.value == "train"}
    hosts = sum(g.instance_count for g in spec.groups if g.instance_group_name in trains)
    lines = [line.text for line in job.logs() if line.text.startswith("RAN ")]
    reports = [json.loads(line.removeprefix("RAN ")) for line in lines]
    assert len({report[0] for report in reports}) == hosts
    for _, values, arguments, variables in reports:
        assert json.loads(values) == spec.hyperparameters
        assert len(arguments) == 2 * len(spec.hyperparameters)
        assert variables == spec.environment


def _run_one(places: tuple[Path, Path], home: Path, data: st.DataObject) -> None:
    run(data.draw(job_specs(*places)), home)


_ONE_AFTER_ANOTHER: Mapping[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    "phases": [Phase.explicit, Phase.generate],  # to make a failing job smaller takes minutes
}


@pytest.mark.long
@settings(max_examples=3, **_ONE_AFTER_ANOTHER)
@given(data=st.data())
def test_what_the_rules_accept_runs(
    places: tuple[Path, Path], tmp_path: Path, data: st.DataObject
) -> None:
    _run_one(places, tmp_path / "home", data)


@pytest.mark.slow
@settings(max_examples=25, **_ONE_AFTER_ANOTHER)
@given(data=st.data())
def test_much_of_what_the_rules_accept_runs(
    places: tuple[Path, Path], tmp_path: Path, data: st.DataObject
) -> None:
    _run_one(places, tmp_path / "home", data)
