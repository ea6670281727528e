"""The usual mistakes of a torch user: each error says what is wrong, where, and how to mend it."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loader_arguments import loader_arguments

from launcher.data import DataLoader
from launcher.errors import DataError

PIPELINE = """
class Numbers:
    def __init__(self, size=10):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index

class TooLong(Numbers):
    def __getitem__(self, index):
        return list(range(7))[index]

class Ragged(Numbers):
    def __getitem__(self, index):
        return [0.0] * (index + 1)

class Missing(Numbers):
    def __getitem__(self, index):
        return None if index == 3 else index

class Picture:
    pass

class Pictures(Numbers):
    def __getitem__(self, index):
        return Picture()

class Unlabelled(Numbers):
    def __getitem__(self, index):
        return float(index), None if index == 3 else index

class OtherKeys(Numbers):
    def __getitem__(self, index):
        return {"odd" if index % 2 else "even": index}

class NoLength:
    def __getitem__(self, index):
        return index

class Stream:
    def __iter__(self):
        return iter(range(10))

class EmptyStream:
    def __iter__(self):
        return iter(())

def forgets_return():
    Numbers()

def collates_two(first, second):
    return first
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    name = f"mistakes_{abs(hash(str(tmp_path)))}"
    (tmp_path / "ml/code").mkdir(parents=True)
    (tmp_path / f"ml/code/{name}.py").write_text(PIPELINE)
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path / "ml"))
    monkeypatch.syspath_prepend(str(tmp_path / "ml/code"))
    for variable in ("RANK", "WORLD_SIZE", "LAUNCHER_RECEIVER"):
        monkeypatch.delenv(variable, raising=False)
    return importlib.import_module(name)


def read(dataset: object, **options: Any) -> None:
    list(DataLoader(dataset, **loader_arguments(**{"tensors": False, **options})))


def read_twice_at_once(dataset: object) -> None:
    loader = DataLoader(dataset, batch_size=1, tensors=False)
    for _ in loader:
        for _ in loader:
            pass


#: The mistake: (what is done, what is wrong, where, how to mend it).
MISTAKES: dict[str, tuple[Callable[[Any], object], str, str, str]] = {
    "a module that is misspelt": (
        lambda p: read("pipelines_of_data:train_set"),
        "No module named 'pipelines_of_data'",
        "the dataset pipelines_of_data:train_set",
        "write pipelines_of_data.py beside the script, or correct the module's name",
    ),
    "a function that is misspelt": (
        lambda p: read(f"{p.__name__}:Number"),
        "could not be imported",
        ":Number ",
        'did you mean "mistakes_',
    ),
    "a module without a function": (
        lambda p: read("pipeline"),
        "is not a dataset reference",
        "'pipeline'",
        "write 'module:function'",
    ),
    "a function that returns nothing": (
        lambda p: read(p.forgets_return),
        "returned a NoneType",
        ":forgets_return",
        "return or define one",
    ),
    "an argument that is misspelt": (
        lambda p: read(p.Numbers, dataset_args={"sizes": 3}),
        "unexpected keyword argument 'sizes'",
        ":Numbers(sizes=3)",
        'is called as .*:Numbers(size=10): give the loader dataset_args={"NAME": VALUE',
    ),
    "a path of this host as an argument": (
        lambda p: read(p.Numbers, dataset_args={"size": f"{Path(p.__file__).parents[1]}/model"}),
        "a path of this host",
        "dataset_args['size']",
        'write launcher.data.channel("NAME", "PATH")',
    ),
    "a dataset without __len__": (
        lambda p: read(p.NoLength),
        "returned a NoLength, which has no __len__",
        ":NoLength",
        "a dataset has __getitem__ and __len__",
    ),
    "a __len__ that is too long": (
        lambda p: read(p.TooLong),
        "raised IndexError",
        "sample 7",
        "len(dataset) is 10: let __len__ return the number of samples that it has",
    ),
    "samples of different shapes": (
        lambda p: read(p.Ragged, batch_size=2),
        "different numbers of parts, 1 and 2",
        ":Ragged.*samples 0, 1",
        "or give the loader a collate_fn",
    ),
    "a sample that is None": (
        lambda p: read(p.Missing, batch_size=2, shuffle=False),
        "number 2 of the 2 samples of a batch is None",
        ":Missing.*samples 2, 3",
        "a branch of it may lack its return",
    ),
    "a label that is None": (
        lambda p: read(p.Unlabelled, batch_size=2, shuffle=False),
        "not alike: [2, None]",
        ":Unlabelled.*samples 2, 3",
        "let the dataset return numbers of one kind",
    ),
    "samples with different keys": (
        lambda p: read(p.OtherKeys, batch_size=2, shuffle=False),
        "KeyError",
        ":OtherKeys.*samples 0, 1",
        "make them alike in the dataset, or give the loader a collate_fn",
    ),
    "samples of a picture library": (
        lambda p: read(p.Pictures, batch_size=2),
        "a sample holds a Picture",
        ":Pictures.*samples 0, 1",
        "convert it in the dataset",
    ),
    "a lambda as collate_fn": (
        lambda p: read(p.Numbers, collate_fn=lambda samples: samples),
        "is a lambda, which data hosts cannot find by its name",
        "the collate_fn .*test_usual_mistakes.py:",
        "define it at the top level of its module",
    ),
    "a collate_fn that cannot be called": (
        lambda p: read(p.Numbers, collate_fn=p.collates_two),
        "missing 1 required positional argument",
        "the collate_fn .*:collates_two .*samples 0",
        "it is called with a list of samples alone",
    ),
    "an iterator as sampler": (
        lambda p: read(p.Numbers, sampler=iter([3, 1, 2])),
        "got a list_iterator",
        "a sampler",
        "write a function of (length, epoch, seed) that returns the ids",
    ),
    "a sampler of another dataset": (
        lambda p: read(p.Numbers, sampler=[3, 10]),
        "the sample id 10",
        "the sampler .*](...) gave",
        "0 to 9: give the loader a sampler that was made for this dataset",
    ),
    "a sampler and shuffle": (
        lambda p: read(p.Numbers, sampler=p.forgets_return, shuffle=True),
        "sampler excludes shuffle",
        "sampler",
        "leave shuffle out",
    ),
    "shuffling a stream": (
        lambda p: read(p.Stream, shuffle=True),
        "shuffle: .*:Stream is iterable",
        ":Stream",
        "leave it out and shuffle there",
    ),
    "a stream on several ranks": (
        lambda p: read(p.Stream, rank=0, world_size=2, shards=2),
        "has no __len__",
        ":Stream",
        "give the loader LoaderOptions(steps=",
    ),
    "a stream that gives every worker everything": (
        lambda p: read(p.Stream, shards=2),
        "gives the same samples in shards 0 and 1",
        ":Stream",
        "launcher.data.shard(), or give the loader shards=1",
    ),
    "an empty dataset": (
        lambda p: read(p.Numbers, dataset_args={"size": 0}),
        "its length is 0",
        ":Numbers(size=0).*rank 0",
        "check where it finds its samples, or give the loader LoaderOptions(allow_empty=True)",
    ),
    "an empty stream": (
        lambda p: read(p.EmptyStream),
        "have no batch",
        "shards [0] of .*:EmptyStream.*rank 0",
        "check where the dataset finds its samples",
    ),
    "drop_last with a large batch": (
        lambda p: read(p.Numbers, batch_size=64, drop_last=True),
        "10 samples .* make no step of batch_size=64",
        ":Numbers",
        "choose a smaller batch_size, drop_last=False",
    ),
    "a generator as dataset": (
        lambda p: read(number for number in range(3)),
        "can be read only once",
        "the generator <genexpr>",
        "give the function",
    ),
    "arguments for an instance": (
        lambda p: read(p.Numbers(), dataset_args={"size": 3}),
        "which has been made already",
        "an instance of Numbers",
        "write DataLoader(Numbers, dataset_args={'size': 3})",
    ),
    "a batch size of 0": (
        lambda p: read(p.Numbers, batch_size=0),
        "batch_size is 0",
        "batch_size",
        "it must be at least 1",
    ),
    "two loops over one loader": (
        lambda p: read_twice_at_once(p.Numbers),
        "this iteration over .* has ended",
        ":Numbers",
        "make two loaders with a name= each",
    ),
    "a loader that is copied": (
        lambda p: copy.deepcopy(DataLoader(p.Numbers)),
        "cannot be pickled or copied",
        "a loader (of .*:Numbers)",
        "make a DataLoader there, and send it this one's state_dict()",
    ),
    "a state of another dataset": (
        lambda p: DataLoader(p.Numbers).load_state_dict(DataLoader(p.Ragged).state_dict()),
        "the state was taken with dataset=",
        ":Ragged.*:Numbers",
        "give the state to the loader that saved it",
    ),
}


def contains(text: str, expected: str) -> bool:
    """Return whether the parts of `expected`, separated by .*, occur in this order."""
    position = 0
    for part in expected.split(".*"):
        position = text.find(part, position)
        if position < 0:
            return False
    return True


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_error_has_cause_place_and_fix(pipeline: ModuleType, mistake: str) -> None:
    make, *parts = MISTAKES[mistake]
    with pytest.raises(DataError) as caught:
        make(pipeline)
    said = str(caught.value).partition("Traceback")[0]
    missing = [part for part in parts if not contains(said, part)]
    assert not missing, said
