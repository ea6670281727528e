"""launcher check --data: each dataset of a job is read here, twice."""

import json

import pytest
from click.testing import CliRunner

from launcher.client.cli import main
from launcher.client.doctor import (
    Level,
    ReadLimits,
    check,
    dataset_copy,
    named_datasets,
    unnamed_datasets,
)
from launcher.client.sessions import LocalSession
from launcher.client.spec import JobSpec

JOB = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: local, instance_count: 1}
  - {instance_group_name: train_group, instance_type: local, instance_count: 1}
"""
MODULE = """\
import os, random, time, numpy as np

class Rows:
    def __init__(self, size=100):
        self.size, self.read = size, 0
    def __len__(self):
        return self.size
    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        self.read += 1
        return self.sample(index)
    def sample(self, index):
        noise = np.random.normal(size=3).astype(np.float32) + random.random()
        return {"image": noise, "label": index}
"""


@pytest.fixture
def findings(tmp_path):
    """Read the dataset `pipeline:train_set` of a module, which ends with some code."""

    def read(
        code, *, listed=("pipeline:train_set",), script="", job="", entry_point="train.py", **limits
    ):
        (tmp_path / "pipeline.py").write_text(MODULE + code)
        (tmp_path / "train.py").write_text(script)
        (tmp_path / "job.yaml").write_text(
            JOB.replace("train.py", entry_point)
            + f"data_service: {{datasets: {json.dumps(listed)}}}\n{job}"
        )
        spec = JobSpec.from_yaml(tmp_path / "job.yaml")
        asked = ReadLimits(**{"samples": 12, "seconds": 20.0, **limits})
        return list(check(spec, asked, LocalSession(root=tmp_path / "jobs")))

    return read


def problem_of(found):
    """The one problem."""
    (problem,) = [each for each in found if each.level is Level.PROBLEM]
    return problem


# What is printed --------------------------------------------------------------------------


def test_length_structure_and_speed_of_a_map_style_dataset(findings):
    found = findings("def train_set():\n    return Rows(1200)\n")
    assert {(each.subject, each.level) for each in found} == {("pipeline:train_set", Level.OK)}
    length, batch, speed, same = [each.what for each in found]
    assert length == "map-style, 1,200 samples"
    assert batch == "first batch, of up to 8: image float32 (8, 3), label int64 (8,)"
    assert "samples/s of one worker (12 in " in speed
    assert same == "12 samples are the same when another process prepares them"


@pytest.mark.long
def test_an_iterable_dataset_without_an_end_is_read_as_far_as_asked(findings):
    endless = """
class Endless:
    def __iter__(self):
        while True:
            yield random.random()
train_set = Endless
"""
    length, batch, _, same = [each.what for each in findings(endless, samples=5)]
    assert length == "iterable, of unknown length"
    assert batch == "first batch, of up to 5: float64 (5,)"
    assert same == "5 samples are the same when another process prepares them"


@pytest.mark.long
def test_reading_ends_after_the_seconds(findings):
    slow = """
class Slow(Rows):
    def sample(self, index):
        time.sleep(0.05)
        return index
train_set = Slow
"""
    *_, same = findings(slow, seconds=0.01)
    assert same.what == "1 samples are the same when another process prepares them"


@pytest.mark.long
def test_samples_that_make_no_batch_are_described_one_by_one(findings):
    ragged = "class Ragged(Rows):\n    sample = lambda self, index: np.zeros(index + 1)\n"
    found = findings(f"{ragged}train_set = Ragged\n")
    assert [each.what for each in found][1] == "first sample: float64 (1,)"
    (warning,) = [each for each in found if each.level is Level.WARNING]
    assert "do not make a batch by themselves" in warning.what
    assert "collate_fn" in warning.fix


def test_samples_of_plain_data_are_described_and_compared(findings):
    code = "class Plain(Rows):\n    sample = lambda self, index: [index, {'text': str(index)}]\n"
    _, batch, _, same = [each.what for each in findings(f"{code}train_set = Plain\n")]
    assert batch == "first batch, of up to 8: [0] int64 (8,), [1].text list of 8, each str"
    assert same == "12 samples are the same when another process prepares them"


@pytest.mark.long
def test_an_argument_and_a_channel_of_the_script_are_used(findings, tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "size").write_text("77")
    code = "def train_set(path, extra):\n    return Rows(int(open(path).read()) + extra)\n"
    script = 'DataLoader("pipeline:train_set", dataset_args={"path": channel("rows", "size"), '
    job = 'inputs: {rows: {s3_data: "file://rows"}}'
    found = findings(code, listed=(), script=f'{script}"extra": 3}})', job=job)
    assert found[0].subject == "pipeline:train_set(extra=3, path=channel('rows', 'size'))"
    assert found[0].what == "map-style, 80 samples"


@pytest.mark.long
def test_nothing_is_written_to_the_folder_of_the_job(findings, tmp_path):
    findings("open('written', 'w').close()\ntrain_set = Rows\n")
    there = {path.name for path in tmp_path.iterdir()}
    assert there == {"pipeline.py", "train.py", "job.yaml"}


# Nondeterminism ---------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "sample",
    ["time.time_ns()", "os.getpid()", "self.read", "random.SystemRandom and os.urandom(8).hex()"],
    ids=["clock", "process", "samples-before", "system-entropy"],
)
def test_a_dataset_that_does_not_repeat_itself_is_a_problem(findings, sample):
    code = "class Changing(Rows):\n    def sample(self, index):\n"
    code += f"        return {{'stays': np.zeros(2), 'moves': np.array([{sample}])}}\n"
    problem = problem_of(findings(f"{code}train_set = Changing\n"))
    assert problem.what.startswith("not reproducible when another process prepares it: sample 0")
    assert "differs in moves " in problem.what
    assert "stays" not in problem.what
    assert "seeded generators" in problem.fix


@pytest.mark.long
def test_an_iterable_dataset_that_ends_elsewhere_is_a_problem(findings):
    code = """
class Shorter:
    def __iter__(self):
        yield from range(1 + os.getpid() % 1 if "SHORT" in os.environ else 9)
        os.environ["SHORT"] = "yes"
def train_set():
    return Shorter()
"""
    assert "it ended after 1 samples when it was read again" in problem_of(findings(code)).what


# Datasets that fail -----------------------------------------------------------------------

FAILING = {
    "import": ("import no_such_module\n", "No module named 'no_such_module'"),
    "length": (
        "class Bad(Rows):\n    def __len__(self):\n        raise KeyError('n')\ntrain_set = Bad\n",
        "raised KeyError('n')",
    ),
    "not there": ("train_sets = Rows\n", 'did you mean "pipeline:train_sets"?'),
    "empty": ("def train_set():\n    return Rows(0)\n", "has no samples: its __len__ returned 0"),
    "yields none": (
        "class Bad:\n    def __iter__(self):\n        return iter(())\ntrain_set = Bad\n",
        "have no batch, so rank 0 has none to read",
    ),
    "argument": ("def train_set(root):\n    pass\n", "missing a required argument: 'root'"),
    "no codec": (
        "class Odd: __slots__ = 'a',\nclass Bad(Rows):\n    sample = lambda self, index: Odd()\n"
        "train_set = Bad\n",
        "register_codec(Odd",
    ),
    "exits": ("import sys\nsys.exit(7)\n", "SystemExit(7)"),
    "killed": ("os.kill(os.getpid(), 9)\n", "the process that reads it ended with SIGKILL"),
}


@pytest.mark.parametrize(("code", "expected"), FAILING.values(), ids=FAILING)
def test_a_dataset_that_fails_is_a_problem(findings, tmp_path, code, expected):
    what = problem_of(findings(code)).what
    assert expected in what
    assert "launcher/data" not in what
    assert "launcher-check-" not in what


def test_a_failure_has_the_users_traceback(findings, tmp_path):
    code = "class Bad(Rows):\n    sample = lambda self, index: [0, 1, 2][index]\ntrain_set = Bad\n"
    what = problem_of(findings(code)).what
    assert "pipeline:train_set raised IndexError for sample 3" in what
    assert "launcher/data" not in what
    assert "launcher-check-" not in what
    assert f'File "{tmp_path}/pipeline.py", line 12, in __getitem__' in what
    assert "sample = lambda self, index: [0, 1, 2][index]" in what


@pytest.mark.long
def test_a_dataset_that_hangs_is_a_problem_with_its_place(findings):
    code = "class Bad(Rows):\n    def sample(self, index):\n        time.sleep(600)\n"
    found = findings(f"{code}train_set = Bad\n", seconds=0.5, build_seconds=3.0)
    assert "did not answer within 4 s" in problem_of(found).what
    assert "time.sleep(600)" in problem_of(found).what


def test_a_training_script_without_a_guard_is_not_run(findings):
    found = findings("", listed=["train:Rows"], script="from pipeline import *\n1 / 0\n")
    assert "has no main guard" in problem_of(found).what


@pytest.mark.parametrize(
    "channel", ['{s3_data: "s3://bucket/rows"}', "s3://bucket/rows"], ids=["fields", "its URI"]
)
def test_a_channel_that_is_elsewhere_is_no_fault_of_the_dataset(findings, tmp_path, channel):
    script = 'DataLoader("pipeline:Rows", dataset_args={"size": channel("rows")})'
    job = f"inputs: {{rows: {channel}}}"
    (found,) = findings("", listed=["pipeline:Rows"], script=script, job=job)
    assert found.level is Level.WARNING
    assert "its channel rows is not on this machine" in found.what
    change = found.fix.partition("--set ")[2]
    assert change == "inputs.rows=file:///folder"
    changed = JobSpec.from_yaml(tmp_path / "job.yaml", [change])
    assert changed.uris == {"inputs.rows.s3_data": "file:///folder"}


@pytest.mark.parametrize("name", ["deep/rows", "../rows", "..", ".", "code", "/rows", ""])
def test_a_channel_whose_name_is_refused_is_left_out(tmp_path, name):
    name = f"{tmp_path}{name}" if name.startswith("/") else name
    spec = JobSpec(entry_point="train.py", inputs={name: "file:///etc", "rows": "file:///etc"})
    with dataset_copy(spec, ()) as copy:
        made = sorted(each for each in copy.paths.root.rglob("*") if each.is_symlink())
        assert made == [copy.paths.channels / "rows"]
        assert copy.elsewhere == ()
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_names_no_dataset_is_told_where_to(findings):
    (found,) = findings("", listed=(), script="print('hello')")
    assert found.level is Level.WARNING
    assert "data_service" in found.fix


CLASS_OF_THE_SCRIPT = """
from launcher.data import DataLoader
from pipeline import Rows
class Own(Rows): ...
class Trainer:
    def fit(self):
        return DataLoader(Own, 4, dataset_args={"size": 30})
"""


def test_a_class_of_a_guarded_script_is_read_though_the_job_lists_none(findings):
    guard = 'if __name__ == "__main__":\n    1 / 0\n'
    found = findings("", listed=(), script=CLASS_OF_THE_SCRIPT + guard)
    assert {(each.subject, each.level) for each in found} == {("train:Own(size=30)", Level.OK)}


@pytest.mark.parametrize("entry_point", ["train.py", "./train.py"])
def test_a_class_of_a_script_without_a_guard_is_named_as_not_read(findings, entry_point):
    script = CLASS_OF_THE_SCRIPT + "1 / 0\n"
    (found,) = findings("", listed=(), script=script, entry_point=entry_point)
    assert (found.subject, found.level) == ("train:Own(size=30)", Level.WARNING)
    assert "not read: train.py has no main guard" in found.what


TASK = """
def train_set():
    return [*range(9)]
def make():
    from launcher.trainers import Task
    return Task(train_data="task:train_set")
"""


def test_a_tasks_dataset_is_read_since_its_module_is_imported_by_design(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    job = JOB.replace("entry_point: train.py", "task: task:make")
    (tmp_path / "job.yaml").write_text(job)
    spec = JobSpec.from_yaml(tmp_path / "job.yaml")
    session = LocalSession(root=tmp_path / "jobs")
    found = list(check(spec, ReadLimits(samples=8, seconds=20.0), session))
    assert {(each.subject, each.level) for each in found} == {("task:train_set", Level.OK)}


def test_what_the_jobs_list_leaves_out_is_named_as_not_read(findings):
    script = f"{CLASS_OF_THE_SCRIPT}rows = list(range(9))\nDataLoader(rows)\n"
    found = findings("train_set = Rows", script=script)
    warning, of_an_object = [each for each in found if each.level is not Level.OK]
    assert (of_an_object.subject, of_an_object.level) == ("train.py:9", Level.WARNING)
    assert (warning.subject, warning.level) == ("train:Own", Level.WARNING)
    assert "data_service.datasets lists others only" in warning.what
    assert warning.fix == 'add "train:Own" to data_service.datasets'


@pytest.mark.parametrize(
    ("loader", "lines"),
    [
        ("from launcher.data import DataLoader\nDataLoader(rows)", [2]),
        ("from launcher import data\ndata.DataLoader(rows)", [2]),
        ("import launcher.data\nlauncher.data.DataLoader(rows)", [2]),
        ("import launcher.data as ours\nours.DataLoader(rows)", [2]),
        ("from torch.utils.data import DataLoader\nDataLoader(rows)", []),
        ("import torch\ntorch.utils.data.DataLoader(rows)", []),
        ("from torch.utils import data\ndata.DataLoader(rows)", []),
        ("import torch.utils.data as tud\ntud.DataLoader(rows)", []),
        ("from torch_geometric.loader import DataLoader\nDataLoader(rows)", []),
        ("from .launcher import DataLoader\nDataLoader(rows)", []),
    ],
)
def test_only_launchers_loaders_are_named_as_not_read(loader, lines):
    assert unnamed_datasets(loader, "train") == lines


# What the loader adds ---------------------------------------------------------------------

SORTED = """
def pad(samples):
    return np.stack([each["image"] for each in samples]) + random.random()
def order(length, epoch, seed):
    return list(range(length))[::2] if epoch else range(length)
def batches(length, epoch, seed):
    return [[0, 1], [2]]
train_set = Rows
"""
SHARDED = """
from launcher.data import shard
class Lines:
    def __iter__(self):
        index, count = shard()
        for number in range(index, 20, count):
            yield self.line(number, index)
    def line(self, number, index):
        return number
train_set = Lines
"""


def loader(arguments):
    return f'loader = DataLoader("pipeline:train_set", {arguments})'


@pytest.mark.long
def test_a_collate_fn_makes_the_first_batch_of_the_loaders_size(findings):
    script = f"from pipeline import pad\n{loader('4, collate_fn=pad')}"
    found = findings(SORTED, script=script)
    assert {each.level for each in found} == {Level.OK}
    assert found[1].what == "first batch, of up to 4 by pipeline:pad: float32 (4, 3)"
    assert found[-1].what.startswith("12 samples and the first batch are the same when another")


def test_a_sampler_is_asked_for_two_epochs(findings):
    found = findings(SORTED, script=loader('sampler="pipeline:order"'))
    orders = [each.what for each in found if "gives" in each.what]
    assert orders == [
        "pipeline:order gives 100 samples in epoch 0",
        "pipeline:order gives 50 samples in epoch 1",
    ]
    assert found[-1].what.startswith("12 samples and the orders are the same when another")


def test_a_batch_sampler_determines_the_first_batch(findings):
    found = findings(SORTED, script=loader('batch_sampler="pipeline:batches"'))
    assert found[1].what == "first sample: image float32 (2, 3), label int64 (2,)"
    assert found[2].what == "pipeline:batches gives 2 batches in epoch 0"


def test_every_shard_is_read(findings):
    found = findings(SHARDED, script=loader("shards=3"), samples=2)
    assert {each.level for each in found} == {Level.OK}
    assert found[0].what == "iterable, of unknown length, read in 3 shards"
    assert found[-1].what.startswith("3 samples are the same")


LOADERS_THAT_FAIL = {
    "collate_fn raises": (
        f"{SORTED}pad = lambda samples: samples[0]['no']\n",
        'collate_fn="pipeline:pad"',
        "the collate_fn pipeline:pad raised KeyError('no')",
    ),
    "collate_fn of the process": (
        f"{SORTED}pad = lambda samples: os.getpid()\n",
        'collate_fn="pipeline:pad"',
        "the batch that pipeline:pad makes: what it holds beside arrays",
    ),
    "sampler that fails in the second epoch": (
        f"{SORTED}order = lambda length, epoch, seed: [[0], []][epoch][:1] or [[]]\n",
        'sampler="pipeline:order"',
        "where sample ids are expected",
    ),
    "sampler of the call": (
        f"{SORTED}calls = []\n"
        "order = lambda length, epoch, seed: calls.append(1) or [len(calls) % length]\n",
        'sampler="pipeline:order"',
        "it must be a pure function of (length, epoch, seed)",
    ),
    "sampler of the process": (
        f"{SORTED}order = lambda length, epoch, seed: [os.getpid() % length, epoch]\n",
        'sampler="pipeline:order"',
        "pipeline:order gives 2 samples in epoch 0 here, and another order there",
    ),
    "shard that raises": (
        SHARDED.replace("return number", "return [number, number, 1 / (2 - index)][1]"),
        "shards=3",
        "pipeline:train_set raised ZeroDivisionError",
    ),
    "shard of the process": (
        SHARDED.replace("return number", "return os.getpid() if index == 1 else number"),
        "shards=2",
        "sample 0 of shard 1 differs in",
    ),
    "shards that are alike": (
        SHARDED.replace("shard()\n", "0, 1\n"),
        "shards=2",
        "so each sample would occur 2 times",
    ),
    "shards of a map-style dataset": (SORTED, "shards=2", "is map-style: shards="),
}


@pytest.mark.parametrize(
    ("code", "arguments", "expected"), LOADERS_THAT_FAIL.values(), ids=LOADERS_THAT_FAIL
)
def test_what_a_loader_adds_and_that_fails_is_a_problem(findings, code, arguments, expected):
    assert expected in problem_of(findings(code, script=loader(arguments))).what


# Names in the script ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('data.DataLoader("a:b", batch_size=2)', ["a:b"]),
        ("from a import b\nDataLoader(dataset=b)", ["a:b"]),
        ('Task(train_data="a:b", validation_data="a:c")', ["a:b", "a:c"]),
        ('DataLoader("a:b", dataset_args={"z": [1, -2], "e": EPOCH})', ["a:b(e=EPOCH, z=[1, -2])"]),
        ('DataLoader("a:b", dataset_args={"root": args.root})', ["a:b"]),
        ('DataLoader("a:b"); DataLoader("a:b")', ["a:b"]),
        ("DataLoader(rows)", []),
        ("def", []),
    ],
)
def test_datasets_are_found_where_a_script_names_them(source, expected):
    assert [each.reference for each in named_datasets(source)] == expected


def test_arguments_of_the_running_script_are_not_taken_for_missing_ones(findings):
    (warning,) = findings(
        "def train_set(size): return Rows(size)",
        script='DataLoader("pipeline:train_set", dataset_args={"size": args.size})',
    )
    assert warning.level is Level.WARNING
    assert "train.py gives it dataset_args that are known only when the script runs" in warning.what


def test_arguments_with_defaults_are_read_without_those_of_the_running_script(findings):
    found = findings(
        "def train_set(size=20): return Rows(size)",
        script='DataLoader("pipeline:train_set", dataset_args={"size": args.size})',
    )
    assert [each.level for each in found] == [Level.OK] * 4


def test_a_jobs_own_list_comes_first():
    source = 'DataLoader("a:b", dataset_args={"n": 1}); DataLoader("a:other")'
    named = [each.reference for each in named_datasets(source, ["a:b", "a:c"])]
    assert named == ["a:b(n=1)", "a:c"]


def test_a_class_of_the_script_that_the_job_lists_has_the_arguments_of_its_loader():
    source = 'class Rows: ...\nDataLoader(Rows, dataset_args={"n": 1})'
    (named,) = named_datasets(source, ["train:Rows"])
    assert named.reference == "train:Rows(n=1)"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("4", {"batch_size": 4}),
        ("batch_size=None, shards=8", {"batch_size": None, "shards": 8}),
        ("batch_size=args.size, shards=None, shuffle=True", {}),
        ('collate_fn="a:pad", sampler=order', {"collate_fn": "a:pad", "sampler": "c:order"}),
        ("batch_sampler=buckets, collate_fn=lambda x: x", {"batch_sampler": "d:by_length"}),
        ("sampler=RandomSampler(rows), collate_fn=pad", {}),
    ],
)
def test_arguments_of_the_loader_are_read_where_they_are_names_and_numbers(arguments, expected):
    imports = "from c import order\nfrom d import by_length as buckets\n"
    (named,) = named_datasets(f'{imports}DataLoader("a:b", {arguments})')
    assert named.loader == expected


def test_a_dataset_that_is_read_in_two_ways_is_checked_in_both():
    source = 'DataLoader("a:b", 2); DataLoader("a:b", 4); DataLoader("a:b", 2)'
    assert [each.loader["batch_size"] for each in named_datasets(source)] == [2, 4]


# The verb ---------------------------------------------------------------------------------


@pytest.mark.long
def test_the_verb_reads_the_datasets_and_its_exit_code_tells(offline, findings, tmp_path):
    findings("def train_set():\n    return Rows(0)\n")
    arguments = ["check", "--data", str(tmp_path), "--samples", "3", "-o", "json"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    answer = json.loads(result.stdout)
    assert result.exit_code == answer["exit_code"] == 2
    (found,) = [each for each in answer["findings"] if each["part"] == "data"]
    assert found["level"] == "problem"
    assert "has no samples" in found["what"]
