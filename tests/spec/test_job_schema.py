"""The JSON schema of a job file agrees with the reader of job files."""

from pathlib import Path

import jsonschema
import pytest

from launcher.client.request import SourceTree
from launcher.client.spec import InstanceGroup, JobSpec, check, field_notes, job_schema, read_value
from launcher.errors import SpecError

REPOSITORY = Path(__file__).parents[2]
JOB_FILES = sorted(
    path.relative_to(REPOSITORY)
    for pattern in (
        "examples/**/*.yaml",
        "tests/local/start_scripts/**/*.yaml",
        "tests/request/golden/*.yaml",
        "launcher/client/cli/starter/job.yaml.txt",
    )
    for path in REPOSITORY.glob(pattern)
)
GROUP = "instance_group_name: a, instance_type: local"
#: A line of a job file, and the field whose value the schema refuses.
BROKEN = {
    "entry_pont: train.py": "$",
    "entry_point: 3": "$.entry_point",
    "dependencies: lib": "$.dependencies",
    "instance_count: two": "$.instance_count",
    "instance_count: 1.5": "$.instance_count",
    "instance_count: true": "$.instance_count",
    "use_spot_instances: 'yes'": "$.use_spot_instances",
    "hyperparameters: [epochs]": "$.hyperparameters",
    "environment: {DEBUG: 1}": "$.environment.DEBUG",
    "input_mode: Fast": "$.input_mode",
    "instance_groups: {a: local}": "$.instance_groups",
    "instance_groups: [{instance_type: local}]": "$.instance_groups[0]",
    f"instance_groups: [{{{GROUP}, instance_typ: local}}]": "$.instance_groups[0]",
    f"instance_groups: [{{{GROUP}, role: trian}}]": "$.instance_groups[0].role",
    f"instance_groups: [{{{GROUP}, command: python x.py}}]": "$.instance_groups[0].command",
    f"instance_groups: [{{{GROUP}, ready: {{prot: 1}}}}]": "$.instance_groups[0].ready",
    "distribution: ddp": "$.distribution",
    "distribution: {data_parallel: {}, mpi: {}}": "$.distribution",
    "distribution: {data_parallel: {processes: 2}}": "$.distribution",
    "distribution: {data_parallel: {precision: fp8}}": "$.distribution",
    "distribution: {model_parallel: {stages: {layer: first}}}": "$.distribution",
    "distribution: {smdistributed: true}": "$.distribution",
    "data_service: {workers: 2}": "$.data_service",
    "data_service: {datasets: pipeline:train_set}": "$.data_service",
    "inputs: {train: {s3_dat: 's3://bucket/x'}}": "$.inputs.train",
    "inputs: {train: {s3_data: 's3://bucket/x', distribution: Sharded}}": "$.inputs.train",
    "inputs: {train: {file_system_id: fs-1}}": "$.inputs.train",
    "metric_definitions: [{Name: loss}]": "$.metric_definitions[0]",
    "metric_definitions: [{Name: loss, Regexp: x}]": "$.metric_definitions[0]",
    "retry: {attempts: many}": "$.retry",
    "retry: {on: [host_last]}": "$.retry",
    "retry: {on: [exit: 75]}": "$.retry",
}


@pytest.fixture(scope="module")
def schema():
    made = job_schema()
    jsonschema.Draft202012Validator.check_schema(made)
    return jsonschema.Draft202012Validator(made)


@pytest.mark.parametrize("file", JOB_FILES, ids=str)
def test_every_job_file_here_is_valid(schema, file):
    schema.validate(read_value((REPOSITORY / file).read_text()))


@pytest.mark.parametrize(("line", "place"), BROKEN.items(), ids=BROKEN)
def test_schema_and_reader_refuse_what_is_broken(schema, line, place):
    text = f"source_dir: .\n{line}\n"
    assert {error.json_path for error in schema.iter_errors(read_value(text))} == {place}
    with pytest.raises(SpecError):
        read_and_check(text)


def read_and_check(text):
    spec = JobSpec.from_yaml(text)
    check(spec, SourceTree(spec))  # words are the rules', not the reader's


@pytest.mark.parametrize(
    "line",
    [
        "distribution: data_parallel",
        "distribution: {mpi: }",
        "hyperparameters:",
        "distribution: {smdistributed: {modelparallel: {enabled: true}}, mpi: {enabled: true}}",
        "inputs: {train: s3://bucket/x}",
        "metric_definitions: [{name: loss, regex: x}, {Name: loss, Regex: x}]",
        "instance_groups: [{instance_group_name: a, instance_type: ml.new.large}]",
    ],
)
def test_short_forms_and_empty_fields_are_valid(schema, line):
    schema.validate(read_value(line))
    JobSpec.from_yaml(line)


def test_editors_are_told_what_a_field_means(schema):
    groups = schema.schema["$defs"]["InstanceGroup"]["properties"]
    assert groups["instance_count"] == {"type": ["integer", "null"], "default": 1}
    assert groups["role"]["description"].startswith("the role of the hosts")
    assert "ml.p3.8xlarge" in groups["instance_type"]["examples"]
    limit = schema.schema["properties"]["max_run"]
    assert limit["description"] == "Seconds after which the platform stops the job."


def test_a_note_has_all_lines_of_its_paragraph():
    notes = field_notes(InstanceGroup)
    assert notes["alternatives"] == (
        "instance types to try, in this order, when AWS has no capacity for the first."
    )
