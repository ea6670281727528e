"""What the SDK world and the job world agree on."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import ContractError
from launcher.shared import (
    PARALLEL_VARIABLE,
    CommandPart,
    DataPart,
    JobDocument,
    Launch,
    ParallelPart,
    Ready,
    Role,
    TrainerPart,
    format_event,
    parse_event,
)

DOCUMENT = JobDocument(
    roles={"data_group": Role.DATA, "train_group": Role.TRAIN},
    trainer=TrainerPart(entry_point="train.py", launch=Launch.TORCHRUN, processes_per_host=4),
    data=DataPart(datasets=("pipeline:train_set",), workers_per_host=3),
    hyperparameter_types={"epochs": "int"},
)

#: No field as by default.
PARALLEL = ParallelPart(
    partitions=2,
    microbatches=8,
    accumulation=3,
    schedule="zero_bubble",
    virtual_stages=2,
    placement="spread",
    starts=("blocks.4", "blocks.8", "head"),
    stages={"blocks.4": 1},
    default_stage=1,
    shard_degree=2,
    sharded=True,
    compression="fp16",
    precision="bf16",
    recomputed=("blocks.0",),
    partition_file="partition.json",
    auto_partition=True,
    optimize="memory",
    memory_cap=2**30,
)

words = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda name: name != "name"),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.dictionaries(st.text(), st.integers())
    | st.lists(st.text()),
)


def test_the_job_document_survives_its_json() -> None:
    assert JobDocument.from_json(DOCUMENT.to_json()) == DOCUMENT


def test_a_document_has_the_lowest_sufficient_version() -> None:
    """So that an older runtime refuses a command group, and takes every job without one."""
    part = CommandPart(command=("python", "server.py"), ready=Ready(port=50051))
    with_command = replace(DOCUMENT, commands={"server_group": part})
    assert json.loads(DOCUMENT.to_json())["version"] == 1
    assert "commands" not in json.loads(DOCUMENT.to_json())
    assert json.loads(with_command.to_json())["version"] == 2
    assert JobDocument.from_json(with_command.to_json()) == with_command


def test_only_mpi_needs_the_version_that_has_it() -> None:
    trainer = TrainerPart(
        entry_point="train.py", launch=Launch.MPI, processes_per_host=2, mpi_options=("-x", "A")
    )
    with_mpi = replace(DOCUMENT, trainer=trainer)
    assert json.loads(with_mpi.to_json())["version"] == 3
    assert JobDocument.from_json(with_mpi.to_json()) == with_mpi


@pytest.mark.parametrize(
    "newer", [{"local_workers": 2}, {"checksums": True}, {"metrics_port": 9400}], ids=str
)
def test_what_older_runtimes_would_leave_out_of_a_data_service_needs_a_version(
    newer: dict[str, Any],
) -> None:
    data = DataPart(datasets=("pipeline:train_set",), **newer)
    document = replace(DOCUMENT, data=data)
    written = json.loads(document.to_json())
    assert written["version"] == 4
    expected = {**asdict(data), "datasets": ["pipeline:train_set"]}
    del expected["engine"]  # our own engine is not written
    assert written["data"] == expected
    assert JobDocument.from_json(document.to_json()) == document


def test_only_requirements_of_a_group_need_the_version_that_has_them() -> None:
    document = replace(DOCUMENT, requirements={"data_group": "requirements-data.txt"})
    assert "requirements" not in json.loads(DOCUMENT.to_json())
    assert json.loads(document.to_json())["version"] == 8
    assert JobDocument.from_json(document.to_json()) == document


def test_only_another_data_engine_needs_the_version_that_has_engines() -> None:
    document = replace(DOCUMENT, data=DataPart(datasets=("pipeline:train_set",), engine="made-up"))
    assert json.loads(document.to_json())["version"] == 7
    assert JobDocument.from_json(document.to_json()) == document


@pytest.mark.parametrize(
    "newer", [{"task": "task:make"}, {"parallel": ParallelPart(partitions=2)}], ids=str
)
def test_what_older_runtimes_would_leave_out_of_a_trainer_needs_a_version(
    newer: dict[str, Any],
) -> None:
    document = replace(DOCUMENT, trainer=replace(DOCUMENT.trainer, **newer))
    assert json.loads(document.to_json())["version"] == 5
    assert JobDocument.from_json(document.to_json()) == document


@pytest.mark.parametrize(
    "cut",
    [
        {"partition_file": "partition.json"},
        {"auto_partition": True},
        {**asdict(PARALLEL), "shard_degree": 1},
    ],
)
def test_what_older_runtimes_would_not_cut_needs_a_version(cut: dict[str, Any]) -> None:
    parallel = ParallelPart(**cut)
    document = replace(DOCUMENT, trainer=replace(DOCUMENT.trainer, task="m:f", parallel=parallel))
    assert json.loads(document.to_json())["version"] == 6
    assert JobDocument.from_json(document.to_json()) == document


def test_what_older_runtimes_would_not_shard_needs_a_version() -> None:
    document = replace(DOCUMENT, trainer=replace(DOCUMENT.trainer, parallel=PARALLEL))
    assert json.loads(document.to_json())["version"] == 9
    assert JobDocument.from_json(document.to_json()) == document


def test_a_trainer_without_task_and_degrees_is_written_as_before() -> None:
    written = json.loads(DOCUMENT.to_json())["trainer"]
    assert written.keys() == {"entry_point", "launch", "processes_per_host", "hang_timeout"}


def test_ranks_read_from_their_variable_what_the_job_says() -> None:
    assert ParallelPart.from_environment({PARALLEL_VARIABLE: PARALLEL.to_json()}) == PARALLEL
    assert PARALLEL.to_fields().keys() == asdict(PARALLEL).keys()


def test_a_process_outside_of_a_job_has_the_defaults() -> None:
    assert ParallelPart.from_environment({}) == ParallelPart()


@pytest.mark.parametrize("text", ["", "[]", "2", '{"stages_of_a_rank": 2}'])
def test_a_variable_that_launcher_has_not_written_is_refused(text: str) -> None:
    with pytest.raises(ContractError, match=r"LAUNCHER_PARALLEL is .* remove it from the job's"):
        ParallelPart.from_environment({PARALLEL_VARIABLE: text})


def test_a_data_service_of_the_first_version_is_read() -> None:
    """It had these three fields and no other."""
    written = json.loads(DOCUMENT.to_json())
    assert written["data"].keys() == {"datasets", "workers_per_host", "prefetch_bytes"}
    assert JobDocument.from_json(json.dumps(written)) == DOCUMENT


def test_a_document_of_before_there_were_hang_timeouts_is_read() -> None:
    older = json.loads(DOCUMENT.to_json())
    del older["trainer"]["hang_timeout"]
    assert JobDocument.from_json(json.dumps(older)) == DOCUMENT


def test_a_newer_document_is_refused_with_a_clear_word() -> None:
    newer = json.dumps({**json.loads(DOCUMENT.to_json()), "version": 99})
    with pytest.raises(
        ContractError,
        match=f"version 99, and this runtime knows versions up to {JobDocument.VERSION}:",
    ):
        JobDocument.from_json(newer)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "roles": {}}'])
def test_a_damaged_document_is_refused(text: str) -> None:
    with pytest.raises(ContractError, match=r"launcher\.json"):
        JobDocument.from_json(text)


@pytest.mark.long
@given(words)
def test_an_event_line_is_one_line_and_reads_back(fields: dict[str, object]) -> None:
    line = format_event("something", **fields)
    assert len(line.splitlines()) == 1
    assert parse_event(line) == ("something", fields)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("12", 12),
        ("-12", -12),
        ("0.50", 0.5),
        ("1e3", 1000.0),
        ("9" * 30, int("9" * 30)),
        ("true", True),
        ("[1]", [1]),
        ("007", "007"),
        ("0.", "0."),
        (".5", ".5"),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
        ("\u0661\u0662", "\u0661\u0662"),  # digits, but not those of JSON
        ("\u00b2", "\u00b2"),
    ],
)
def test_a_field_of_an_event_is_a_number_only_as_json_has_it(text: str, value: object) -> None:
    event = parse_event(f"launcher: something x={text}")
    assert event == ("something", {"x": value})
    assert event is not None
    assert type(event[1]["x"]) is type(value)


@pytest.mark.parametrize(
    "line", ["", "epoch 1 loss 0.3", "launcher:", "launcher: Loud x=1", "x launcher: event a=1"]
)
def test_other_lines_are_no_events(line: str) -> None:
    assert parse_event(line) is None
