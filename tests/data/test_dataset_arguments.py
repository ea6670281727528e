"""Datasets with arguments, as classes, functions and objects: one reference, the same batches."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import json
import logging
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from loader_arguments import loader_arguments

from launcher.data import DataLoader, LoaderOptions, channel, describe_instance
from launcher.data.batches import class_names
from launcher.data.order import dataset_arguments, user_code
from launcher.errors import DataError
from launcher.shared import DataPart, JobDocument, Launch, Role, TrainerPart, parse_event

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")

PIPELINE = """
import numpy as np

class Digits:
    class Small:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return index

    def __init__(self, root="", size=4, *, names=()):
        self.root, self.size, self.names = root, size, names

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return {"x": index + np.random.rand(), "root": self.root, "names": list(self.names)}

class Stream:
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        from launcher.data import shard
        index, count = shard()
        return iter(range(index, self.size, count))

def train_set(size, root=""):
    return Digits(root, size)

def stream_set(size):
    return iter(range(size)) if size < 0 else Stream(size)

def summed(samples):
    return sum(sample["x"] for sample in samples)

def backwards(length, epoch, seed):
    return range(length - 1, -1, -1)

called = []

def begin(number):
    called.append(number)
"""


@pytest.fixture
def ml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ML root of this process, with one channel."""
    (tmp_path / "ml/input/data/digits/train").mkdir(parents=True)
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path / "ml"))
    return tmp_path / "ml"


@pytest.fixture
def pipeline(ml: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The dataset's module, in the code folder of the job."""
    name = f"pipeline_{abs(hash(str(ml)))}"
    (ml / "code").mkdir()
    (ml / f"code/{name}.py").write_text(PIPELINE)
    monkeypatch.syspath_prepend(str(ml / "code"))
    for variable in ("RANK", "WORLD_SIZE", "LAUNCHER_RECEIVER"):
        monkeypatch.delenv(variable, raising=False)
    return importlib.import_module(name)


def read(*arguments: object, **options: object) -> list[object]:
    given = loader_arguments(**{"batch_size": 2, "tensors": False, **options})
    loader = DataLoader(*arguments, **given)  # type: ignore[arg-type]
    return [repr(batch) for batch in loader]


# References ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"size": 224, "ratio": -0.5, "large": 1e300, "on": True, "none": None},
        {"text": 'it\'s ("quoted")\n\\ \x00 \udc80', "path": "data/a.txt"},
        {"nested": [1, [2.5, {"a": [None]}], (1, (2,))], "empty": [[], {}, ()]},
        {"root": channel("digits", "train"), "roots": [channel("a b"), {"k": channel("c'd")}]},
    ],
)
def test_arguments_travel_in_the_reference_as_they_are(arguments: dict[str, object]) -> None:
    reference = dataset_arguments.with_arguments("pipeline:train_set", arguments)
    assert dataset_arguments.arguments_of(reference) == arguments
    assert dataset_arguments.without_arguments(reference) == "pipeline:train_set"
    assert "\n" not in reference


def test_the_order_of_arguments_is_no_difference() -> None:
    one, other = (
        dataset_arguments.with_arguments("p:f", given)
        for given in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    )
    assert one == other == "p:f(a=1, b=2)"


@pytest.mark.parametrize(
    "reference",
    ["p:f(", "p:f(1)", "p:f(a=b)", "p:f(a=__import__('os'))", "p:f(a=channel(x))", "p:f)(a=1",
     "p:f(a=channel('..'))", "p:f(**{'a': 1})", f"p:f(a={'[' * 5000})", "p:f(a=1)(b=2)"],
)  # fmt: skip
def test_damaged_arguments_are_refused_and_nothing_is_called(reference: str) -> None:
    with pytest.raises(DataError):
        dataset_arguments.arguments_of(reference)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([("size", 4)], "dataset_args is a list; write a dict"),
        ({"no name": 1}, "has the key 'no name'; its keys are names of arguments"),
        ({"lambda": 1}, "has the key 'lambda'"),
        (
            {"size": np.int64(4)},
            r"dataset_args\['size'\] has the type int64; JSON values and channel",
        ),
        ({"size": [1, object()]}, r"dataset_args\['size'\]\[1\] has the type object"),
        ({"at": {1: 2}}, "has the key 1; the keys are str"),
        ({"ratio": float("nan")}, "is nan; JSON has finite numbers only"),
        ({"root": Path("data")}, "is a PosixPath; write a str, 'data'"),
        (
            {"root": "{ml}/input/data/digits/train"},
            r"no data host looks: write launcher\.data\.channel\('digits', 'train'\)",
        ),
        ({"root": "{ml}/code/words.txt"}, "write 'words.txt', since data hosts, too, run in"),
        ({"root": "{ml}/model"}, r'write launcher\.data\.channel\("NAME", "PATH"\)'),
    ],
)
def test_what_no_data_host_could_use_is_refused(ml: Path, arguments: object, message: str) -> None:
    if isinstance(arguments, dict) and isinstance(arguments.get("root"), str):
        arguments = {"root": arguments["root"].format(ml=ml)}
    with pytest.raises(DataError, match=message):
        DataLoader("p:f", dataset_args=arguments)  # type: ignore[arg-type]


def test_all_wrong_arguments_are_named_at_once() -> None:
    with pytest.raises(DataError, match=r"(?s)\['a'\] has the type set.*\['b'\] is inf"):
        DataLoader("p:f", dataset_args={"a": {1}, "b": float("inf")})


@pytest.mark.parametrize("parts", [("/digits",), ("digits", "../a"), ("digits", "/a"), (1,)])
def test_a_channel_path_stays_in_its_channel(parts: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="give the channel's name and a path below it"):
        channel(*parts)


def test_a_channel_path_is_a_path_of_this_host_and_has_paths_below_it(ml: Path) -> None:
    digits = channel("digits")
    assert str(digits) == f"{digits}" == os.fspath(digits) == str(ml / "input/data/digits")
    assert digits / "train" / Path("a..b") == channel("digits", "train/a..b")
    assert digits / "" == digits == copy.deepcopy(digits)
    assert repr(digits / "train") == "channel('digits', 'train')"
    assert Path(digits / "train").is_dir() == (ml / "input/data/digits/train").is_dir()
    for wrong in ("/etc", ".."):
        with pytest.raises(DataError, match="give the channel's name and a path below it"):
            digits / wrong
    with pytest.raises(TypeError):
        digits / 3
    with pytest.raises(AttributeError, match=r"write Path\(channel\('digits'\)\)\.glob"):
        digits.glob("*")
    with pytest.raises(AttributeError, match="a path in a channel has no 'nothing'"):
        digits.nothing  # noqa: B018 - it raises


# Datasets ------------------------------------------------------------------------------------


def test_a_name_a_class_and_a_function_give_the_same_batches(pipeline: ModuleType) -> None:
    expected = read(f"{pipeline.__name__}:Digits", dataset_args={"size": 5})
    assert len(expected) == 3
    assert read(pipeline.Digits, dataset_args={"size": 5}) == expected
    assert read(pipeline.train_set, dataset_args={"size": 5}) == expected
    assert read(pipeline.Digits("", 5)) == expected  # an instance


def test_a_class_in_a_class_is_named(pipeline: ModuleType) -> None:
    assert read(pipeline.Digits.Small) == read(f"{pipeline.__name__}:Digits.Small")


def test_a_channel_is_resolved_where_the_dataset_is_made(pipeline: ModuleType, ml: Path) -> None:
    (batch,) = read(pipeline.Digits, dataset_args={"root": channel("digits", "train"), "size": 1})
    assert str(ml / "input/data/digits/train") in str(batch)
    with pytest.raises(DataError, match=r"this host has no channel 'words', only \['digits'\]"):
        read(pipeline.Digits, dataset_args={"root": channel("words")})


def test_arguments_that_do_not_fit_name_those_that_do(pipeline: ModuleType) -> None:
    with pytest.raises(DataError, match="missing a required argument: 'size'"):
        read(pipeline.train_set)


def test_a_state_belongs_to_the_arguments(pipeline: ModuleType) -> None:
    small, large = (
        DataLoader(pipeline.Digits, dataset_args={"size": size}, tensors=False) for size in (3, 9)
    )
    with pytest.raises(DataError, match=r"dataset='\S+:Digits\(size=3\)'.*Digits\(size=9\)"):
        large.load_state_dict(small.state_dict())
    state = json.loads(json.dumps(small.state_dict()))
    again = DataLoader(pipeline.Digits, dataset_args={"size": 3}, tensors=False)
    again.load_state_dict(state)
    assert len(again) == 3


def test_functions_are_given_as_objects(pipeline: ModuleType) -> None:
    name = pipeline.__name__
    by_name = read(pipeline.Digits, collate_fn=f"{name}:summed", sampler=f"{name}:backwards")
    by_object = read(pipeline.Digits, collate_fn=pipeline.summed, sampler=pipeline.backwards)
    assert by_name == by_object
    assert len(by_name) == 2


def test_the_running_script_is_not_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ModuleType("__main__")
    script.__file__ = str(tmp_path / "train_once.py")
    exec("class Digits(list):\n    pass\n", vars(script))
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert class_names.reference_to(script.Digits) == "train_once:Digits"  # type: ignore[attr-defined]
    found = user_code.resolve("train_once:Digits", "dataset")
    assert found is script.Digits  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (lambda: [1], "the dataset .*<lambda> of .* is a lambda"),
        (functools.partial(list, [1]), "a partial, .* its arguments as dataset_args="),
        (42, "the dataset given is a int; a dataset has __getitem__ and __len__"),
    ],
    ids=["lambda", "partial", "number"],
)
def test_what_is_no_dataset_is_refused(dataset: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        DataLoader(dataset)


# Instances -----------------------------------------------------------------------------------


def test_beside_an_instance_any_callable_will_do(pipeline: ModuleType) -> None:
    weight = 2
    batches = read(pipeline.Digits(size=4), collate_fn=lambda batch: weight * len(batch))
    assert batches == ["4", "4"]


def test_each_shard_of_an_instance_is_a_copy(pipeline: ModuleType) -> None:
    loader = DataLoader(pipeline.Stream(6), batch_size=1, shards=2, tensors=False)
    assert sorted(int(batch[0]) for batch in loader) == list(range(6))


def declare_data_hosts(ml: Path) -> None:
    document = JobDocument(
        roles={"data": Role.DATA, "train": Role.TRAIN},
        trainer=TrainerPart(entry_point="train.py", launch=Launch.PYTHON, processes_per_host=1),
        data=DataPart(datasets=()),
    )
    (ml / "input/data/code").mkdir()
    (ml / "input/data/code/launcher.json").write_text(document.to_json())


# Empty ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        ("Digits", {"rank": 1, "world_size": 2}, "its length is 0, so rank 1 has no batch"),
        (
            "Stream",
            {"rank": 1, "world_size": 2, "shards": 2, "steps": 3},
            r"the shards \[1\] of .* have no batch, so rank 1 has none to read in epoch 0",
        ),
    ],
    ids=["map-style", "iterable"],
)
def test_an_empty_dataset_is_an_error_unless_allowed(
    pipeline: ModuleType, dataset: str, options: dict[str, object], message: str
) -> None:
    given = getattr(pipeline, dataset)
    with pytest.raises(DataError, match=f"(?s){message}.*allow_empty=True"):
        read(given, dataset_args={"size": 0}, **options)
    assert read(given, dataset_args={"size": 0}, allow_empty=True, **options) == []


@pytest.mark.parametrize("dataset", ["Digits", "Stream"])
def test_a_stream_without_a_batch_is_an_error(pipeline: ModuleType, dataset: str) -> None:
    options = {"dataset_args": {"size": 5}, "batch_size": 8, "drop_last": True}
    with pytest.raises(DataError, match="drop_last"):
        read(getattr(pipeline, dataset), **options)
    assert read(getattr(pipeline, dataset), **options, allow_empty=True) == []


def test_a_sampler_that_gives_nothing_is_an_error(
    pipeline: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "backwards", lambda length, epoch, seed: [])
    with pytest.raises(DataError, match="backwards gave no sample of the 4 of"):
        read(pipeline.Digits, sampler=f"{pipeline.__name__}:backwards")


# torch's arguments ---------------------------------------------------------------------------


def test_torchs_arguments_are_taken_and_change_no_batch(
    pipeline: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    expected = read(pipeline.Digits, shuffle=True, seed=7)
    generator = SimpleNamespace(initial_seed=lambda: 7)
    given = DataLoader(
        pipeline.Digits,
        2,
        True,
        tensors=False,
        num_workers=4,
        prefetch_factor=2,
        persistent_workers=True,
        timeout=540,
        generator=generator,
        worker_init_fn=pipeline.begin,
        pin_memory_device="",
    )
    assert [repr(batch) for batch in given] == expected
    assert "data_service: {local_workers: 4}" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, r"num_workers is -1.*\(workers_per_host, local_workers\)"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0.*data_service.prefetch_bytes"),
        ({"timeout": -2}, "timeout is -2; it must be 0 or more seconds"),
        ({"timeout": "1"}, "timeout is '1'; it must be a number of seconds"),
        ({"generator": 3}, r"the generator is a int; give torch\.Generator"),
        ({"generator": SimpleNamespace(initial_seed=int), "seed": 1}, "keep one of them"),
        ({"pin_memory_device": "xpu"}, "pin_memory is for CUDA alone"),
        ({"multiprocessing_context": "spawn"}, "data workers are processes of the job"),
        ({"batch_sampler": iter([[0]])}, r"function of \(length, epoch, seed\).* batches of ids"),
    ],
)
def test_torchs_arguments_without_a_meaning_name_ours(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        DataLoader("p:f", **loader_arguments(**options))  # type: ignore[arg-type]


class Indices:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


def test_a_worker_init_fn_is_called_once_and_for_each_shard(pipeline: ModuleType) -> None:
    loader = DataLoader(pipeline.Digits, worker_init_fn=pipeline.begin, tensors=False)
    list(loader)
    list(loader)
    assert pipeline.called == [0]
    pipeline.called.clear()
    options = {"dataset_args": {"size": 8}, "shards": 2, "worker_init_fn": pipeline.begin}
    read(pipeline.Stream, **options)
    assert sorted(pipeline.called) == [0, 1]


def test_a_worker_init_fn_that_raises_is_named(pipeline: ModuleType) -> None:
    with pytest.raises(DataError, match=r"the worker_init_fn \S+:summed raised TypeError"):
        read(pipeline.Digits, worker_init_fn=pipeline.summed)


def test_torchs_samplers_are_taken_for_what_they_do(pipeline: ModuleType) -> None:
    data = pytest.importorskip("torch.utils.data")
    dataset = pipeline.Digits(size=5)
    generator = sys.modules["torch"].Generator().manual_seed(3)
    sampler = data.RandomSampler(dataset, generator=generator)
    assert read(dataset, sampler=sampler) == read(dataset, shuffle=True, seed=3)
    sequential = data.SequentialSampler(dataset)
    assert read(dataset, sampler=sequential) == read(dataset)
    with pytest.raises(DataError, match="sampler excludes shuffle"):
        DataLoader(dataset, sampler=sequential, shuffle=True)


def test_with_data_hosts_a_sampler_object_is_answered_with_the_function_to_write(
    pipeline: ModuleType, ml: Path
) -> None:
    data = pytest.importorskip("torch.utils.data")
    declare_data_hosts(ml)
    sampler = data.WeightedRandomSampler([0.5, 0.5], 100, replacement=True)
    with pytest.raises(DataError) as caught:
        DataLoader(pipeline.Digits, 2, sampler=sampler)
    assert f'sampler="{pipeline.__name__}:order"' in str(caught.value)


def test_a_function_may_return_a_sampler_of_torch(pipeline: ModuleType) -> None:
    data = pytest.importorskip("torch.utils.data")
    pipeline.__dict__["order"] = lambda length, epoch, seed: data.SubsetRandomSampler(range(length))
    options = {"sampler": f"{pipeline.__name__}:order", "collate_fn": None}
    batches = read(pipeline.Digits, **options)
    assert len(batches) == 2
    assert read(pipeline.Digits, **options) == batches


def test_instances_of_one_class_have_streams_of_their_own(
    pipeline: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    data = pytest.importorskip("torch.utils.data")
    halves = data.random_split(pipeline.Digits(size=400), [0.5, 0.5])
    for dataset in (pipeline.Digits(size=3), pipeline.Digits(size=9), *halves):
        list(DataLoader(dataset, tensors=False))
    events = filter(None, map(parse_event, caplog.messages))
    streams = [fields["stream"] for name, fields in events if name == "data_epoch"]
    digits = f"{pipeline.__name__}:Digits"
    assert streams[:2] == [f"{digits}(size=3, len=3)", f"{digits}(size=9, len=9)"]
    assert len(set(streams)) == 4


class Silent:
    """An object whose text would take long to make."""

    def __repr__(self) -> str:
        raise AssertionError("its text was made")


def test_large_arguments_of_an_object_are_not_written_out() -> None:
    class Images(Indices):
        def __init__(self, images: object, labels: object = ()) -> None:
            self.images, self.labels = images, labels

    described = describe_instance(Images([Silent()] * 9, tuple(range(10**6))))
    assert described.startswith("images=..., labels=...")
    assert len(described) < 60
    assert described != describe_instance(Images([Silent()] * 9, tuple(range(1, 10**6))))


def test_a_distributed_sampler_shares_among_ranks_and_sets_the_epoch(pipeline: ModuleType) -> None:
    data = pytest.importorskip("torch.utils.data")
    dataset = pipeline.Digits(size=7)
    ours = DataLoader(
        dataset, 2, shuffle=True, tensors=False, options=LoaderOptions(rank=1, world_size=2)
    )
    epochs = [[repr(batch) for batch in ours] for _ in range(3)]
    sampler = data.DistributedSampler(dataset, num_replicas=2, rank=1)
    loader = DataLoader(dataset, 2, sampler=sampler, tensors=False)
    for epoch in (2, 0, 1):
        sampler.set_epoch(epoch)
        assert [repr(batch) for batch in loader] == epochs[epoch]


@pytest.mark.parametrize("tensors", [None, False])
def test_torchs_own_collate_function_is_the_default(
    pipeline: ModuleType, tensors: bool | None
) -> None:
    data = pytest.importorskip("torch.utils.data")
    for size, function in ((2, data.default_collate), (None, data.default_convert)):
        options = {"batch_size": size, "tensors": tensors}
        given = read(pipeline.Digits, collate_fn=function, **options)
        assert given == read(pipeline.Digits, **options)


def test_torchs_conversion_of_samples_makes_no_batch_of_them() -> None:
    torch = pytest.importorskip("torch")
    ragged = [np.ones(1), np.ones(2)]
    (batch,) = DataLoader(ragged, 2, collate_fn=torch.utils.data.default_convert)
    assert [each.tolist() for each in batch] == [[1.0], [1.0, 1.0]]
    assert all(map(torch.is_tensor, batch))


def test_a_loader_has_torchs_arguments_and_eight_of_its_own() -> None:
    data = pytest.importorskip("torch.utils.data")
    ours = {*inspect.signature(DataLoader).parameters} - {"options"}
    assert len(ours - {*inspect.signature(data.DataLoader).parameters}) <= 8


@pytest.mark.parametrize("field", dataclasses.fields(LoaderOptions), ids=lambda field: field.name)
def test_an_option_as_an_argument_is_refused_with_its_place(field: dataclasses.Field[Any]) -> None:
    said = rf"{field.name} of a DataLoader is given in its options: .*LoaderOptions\({field.name}="
    with pytest.raises(DataError, match=said):
        DataLoader([1, 2], **{field.name: field.default})
