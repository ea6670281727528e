"""A pipeline is cut as the file of its job says, which must be of its model, or as rank 0 finds."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from cut_model import consistent
from ranks import noted, run
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel import fingerprint
from launcher.parallel.partitioning import PartitionQuestion, decide
from launcher.parallel.pretrained import write_tensors
from launcher.parallel.profiling import Sample, profile
from launcher.shared import Link, ParallelPart, PartitionFile

_SCRIPT = """
from torch.nn.functional import mse_loss

torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
world = parallel.init(global_batch=16)
pipeline = Pipeline(model, world, example={"input": torch.zeros(4, 16)}, loss=mse_loss)
loss = pipeline.step(torch.ones(16, 16), target=torch.zeros(16, 16))
note({"modules": list(pipeline.module.state_dict()), "loss": loss.item()})
"""


def refusal(folder: Path, script: str, part: ParallelPart, **variables: str) -> str:
    """Return the words with which a script ends on all ranks."""
    noting = "try:\n" + "".join(f"    {line}\n" for line in script.splitlines())
    noting += "except Exception as error:\n    note(str(error))\n    raise\n"
    outcome = run(folder, noting, LAUNCHER_PARALLEL=part.to_json(), **variables)
    assert outcome.code == 1
    assert outcome.notes[0] == outcome.notes[1]
    return str(outcome.notes[0])


#: A profiler cannot be imported.
_WITHOUT = """
sys.modules |= {f"launcher.parallel.{name}": None for name in ("profiling", "partitioning")}
"""


@pytest.fixture(scope="module")
def partition() -> PartitionFile:
    """Of the script's model, for two ranks."""
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
    sample = Sample(arguments={"input": torch.zeros(4, 16)})
    return decide(
        [profile(model, sample, device=torch.device("cpu"))],
        fingerprint.compute(model, sample.arguments),
        Link(),
        PartitionQuestion(partitions=2, microbatches=4),
    )


def started(folder: Path, script: str, part: ParallelPart, **variables: str) -> list[Any]:
    return noted(folder, script, LAUNCHER_PARALLEL=part.to_json(), **variables)


def of_file(folder: Path, partition: PartitionFile) -> tuple[ParallelPart, dict[str, str]]:
    partition.write(folder / "partition.json")
    part = ParallelPart(partitions=2, microbatches=4, partition_file="partition.json")
    return part, {"SM_MODULE_DIR": str(folder)}


@pytest.mark.long
def test_a_job_with_a_file_needs_no_profiler(tmp_path: Path, partition: PartitionFile) -> None:
    moved = dataclasses.replace(partition, starts=("4",))
    part, variables = of_file(tmp_path, moved)
    first, second = started(tmp_path, _WITHOUT + _SCRIPT, part, **variables)
    assert second["modules"] == ["4.weight", "4.bias", "5.weight", "5.bias"]
    assert first["loss"] == second["loss"] > 0


_CASES = """
import dataclasses, warnings
from torch.nn.functional import mse_loss

world, found = parallel.init(global_batch=16), {}
files = ("partition", "partitions", "shards", "version", "doubts")
for file, width in ((file, 24 if file == "partition" else 16) for file in files):
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(6)))
    job = dataclasses.replace(world.job, partition_file=f"{file}.json")
    with warnings.catch_warnings(record=True) as warned:
        try:
            Pipeline(
                model,
                dataclasses.replace(world, job=job),
                example={"input": torch.zeros(4, width)},
                loss=mse_loss,
            )
            found[file] = [str(each.message) for each in warned]
        except Exception as error:
            found[file] = f"{type(error).__name__}: {error}"
note(found)
"""


@pytest.mark.long
def test_a_file_of_something_else_is_refused(tmp_path: Path, partition: PartitionFile) -> None:
    part, variables = of_file(tmp_path, partition)
    other = dataclasses.replace(partition.fingerprint, example=("[8, 16] float32",), torch="2.0")
    for name, changes in {
        "partitions": {"partitions": 3, "starts": ("1", "2")},
        "version": {"version": 9},
        "doubts": {"fingerprint": other},
    }.items():
        dataclasses.replace(partition, **changes).write(tmp_path / f"{name}.json")
    sharded = dataclasses.replace(partition, replicas=4, shard_degree=4)
    consistent(sharded).write(tmp_path / "shards.json")
    notes = started(tmp_path, _CASES, part, **variables)
    for found in notes:
        assert found["partition"] == (
            "ParallelError: partition.json was made for another model: 0.weight is [16, 16] "
            "float32 in the file, but [24, 24] float32 in this model; run `launcher plan cut` "
            "again"
        )
        assert (
            "partitions.json was made for partitions=3, but this job has partitions=2"
            in found["partitions"]
        )
        assert "shards.json was made for shard_degree=4, but this job has" in found["shards"]
        assert "version.json: it is of version 9, and this Launcher reads" in found["version"]
    size, version = notes[0]["doubts"]  # once: on rank 0
    assert "measured with microbatches of [8, 16] float32, but this job has [4, 16]" in size
    assert "made with torch 2.0" in version
    assert notes[1]["doubts"] == []


@pytest.mark.long
def test_rank_0_finds_the_cuts_once(tmp_path: Path) -> None:
    part = ParallelPart(partitions=2, microbatches=4, auto_partition=True)
    variables = {"LAUNCHER_PARALLEL": part.to_json(), "SM_OUTPUT_DATA_DIR": str(tmp_path)}
    first = run(tmp_path / "first", _SCRIPT, **variables)
    assert first.code == 0, first.output
    found = PartitionFile.read(tmp_path / "partition.json")
    (start,) = found.starts
    assert found.link.source == "measured"
    assert first.notes[0]["modules"][-1] == f"{int(start) - 1}.bias"
    assert first.notes[1]["modules"][0] == f"{start}.weight"
    assert f"stages start at {start}" in first.output
    # Ranks that are started again go on with what was decided.
    moved = "1" if start != "1" else "2"
    dataclasses.replace(found, starts=(moved,)).write(tmp_path / "partition.json")
    again = noted(tmp_path / "again", _SCRIPT, **variables)
    assert again[1]["modules"][0] == f"{moved}.weight"


@pytest.mark.long
def test_what_was_decided_for_other_numbers_is_decided_anew(
    tmp_path: Path, partition: PartitionFile
) -> None:
    dataclasses.replace(partition, partitions=3, starts=("1", "2")).write(
        tmp_path / "partition.json"
    )
    part = ParallelPart(partitions=2, microbatches=4, auto_partition=True)
    started(tmp_path, _SCRIPT, part, SM_OUTPUT_DATA_DIR=str(tmp_path))
    found = PartitionFile.read(tmp_path / "partition.json")
    assert (found.partitions, len(found.starts)) == (2, 1)


@pytest.mark.long
def test_a_decision_that_cannot_be_kept_ends_all_ranks(tmp_path: Path) -> None:
    part = ParallelPart(partitions=2, microbatches=4, auto_partition=True)
    words = refusal(tmp_path, _SCRIPT, part, SM_OUTPUT_DATA_DIR=str(tmp_path / "none"))
    assert "auto_partition cannot write its decision to" in words


@pytest.mark.long
def test_what_cannot_be_found_is_refused_on_all_ranks(tmp_path: Path) -> None:
    part = ParallelPart(partitions=2, microbatches=4, auto_partition=True, memory_cap=1000)
    words = refusal(tmp_path, _SCRIPT, part, SM_OUTPUT_DATA_DIR=str(tmp_path))
    assert "bytes per rank, but the cap is 1000" in words
    assert not (tmp_path / "partition.json").exists()


#: A module and an optimizer that raise whatever users' code may raise.
_FAILING = """
class Planted(Exception):
    def __init__(self, one, other):  # pickle cannot make it again
        super().__init__(f"planted {one} {other}")

class Failing(torch.nn.Linear):
    def forward(self, x):
        if os.environ["KIND"] == "module":
            raise MemoryError("planted in the module")
        return super().forward(x)

def states():
    if os.environ["KIND"] == "optimizer":
        raise Planted("in the", "optimizer")
    return 2

from launcher.parallel.cutting.start_orders import resolve_starts

world = parallel.init(global_batch=16)
model = torch.nn.Sequential(*(Failing(16, 16) for _ in range(4)))
note(refused(resolve_starts, model, world, {"input": torch.zeros(4, 16)}, states=states))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("module", "MemoryError: planted in the module"),
        ("optimizer", "Planted: planted in the optimizer"),
    ],
)
def test_whatever_the_users_code_raises_is_raised_on_all_ranks(
    tmp_path: Path, kind: str, words: str
) -> None:
    part = ParallelPart(partitions=2, microbatches=4, auto_partition=True)
    found = started(tmp_path, _FAILING, part, SM_OUTPUT_DATA_DIR=str(tmp_path), KIND=kind)
    expected = f"auto_partition failed on rank 0, which runs the model on its example: {words}"
    assert found == [expected] * 2


#: The model has no weights until its rank reads them.
_WEIGHTLESS = _SCRIPT.replace(
    "model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))",
    "with torch.device('meta'):\n    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))",
)


@pytest.mark.long
def test_a_model_without_weights_is_checked_and_cut_as_the_file_says(
    tmp_path: Path, partition: PartitionFile
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
    write_tensors(model.state_dict(), tmp_path / "model.safetensors")
    part, variables = of_file(tmp_path, partition)
    script = _WEIGHTLESS.replace("loss=mse_loss)", f"loss=mse_loss, weights={str(tmp_path)!r})")
    first, second = started(tmp_path, script, part, **variables)
    assert second["modules"][0] == f"{partition.starts[0]}.weight"
    expected = nn.functional.mse_loss(model(torch.ones(16, 16)), torch.zeros(16, 16))
    assert first["loss"] == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            {"starts": ("3",)},
            "the model has parameters without storage: give the pipeline weights=",
        ),
        ({"auto_partition": True}, "auto_partition measures the model, which has no weights yet"),
    ],
    ids=["starts", "auto"],
)
def test_a_model_without_weights_needs_some(
    tmp_path: Path, part: dict[str, Any], said: str
) -> None:
    assert said in refusal(
        tmp_path, _WEIGHTLESS, ParallelPart(partitions=2, microbatches=4, **part)
    )


NO_CALLS = '{"version": 1, "fingerprint": {}}'
NESTED = "[" * 100_000


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "link": 2}', NO_CALLS, NESTED]
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "partition.json").write_text(text)
    with pytest.raises(Exception, match=r"partition\.json: .*make it again"):
        PartitionFile.read(tmp_path / "partition.json")


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_seconds_that_are_none_are_refused(
    tmp_path: Path, partition: PartitionFile, seconds: float
) -> None:
    stages = (dataclasses.replace(partition.stages[0], forward=seconds), *partition.stages[1:])
    dataclasses.replace(partition, stages=stages).write(tmp_path / "partition.json")
    with pytest.raises(ParallelError, match=rf"stages\[0\]\.forward is {seconds}; make it again"):
        PartitionFile.read(tmp_path / "partition.json")


def test_a_file_has_everything_that_was_decided(tmp_path: Path, partition: PartitionFile) -> None:
    partition.write(tmp_path / "partition.json")
    assert PartitionFile.read(tmp_path / "partition.json") == partition
    raw = json.loads((tmp_path / "partition.json").read_text())
    assert raw["starts"] == list(partition.starts)
