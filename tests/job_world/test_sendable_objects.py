"""A dataset object in a job with data hosts: the error's advice works when typed as printed."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from launcher.data import DataLoader
from launcher.errors import DataError
from launcher.shared import DataPart, JobDocument, Launch, Role, TrainerPart

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")

#: A library's datasets and transforms, as torchvision has them.
LIBRARY = """
import enum

class Mode(enum.Enum):
    NEAREST = 1
    AREA = 2

class Flip(enum.Flag):
    ACROSS = enum.auto()
    DOWN = enum.auto()

class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, value):
        for transform in self.transforms:
            value = transform(value)
        return value

class Scale:
    def __init__(self, by, mode=Mode.NEAREST):
        self.by, self.mode = by, mode

    def __call__(self, value):
        return value * self.by[0] + self.mode.value

class Lambda:
    def __init__(self, lambd):
        self._function = lambd

    def __call__(self, value):
        return self._function(value)

class Images:
    def __init__(self, root="", transform=None, download=False):
        self.root, self.transform = root, transform

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.transform(index) if self.transform else index

class Split(Images):
    def __init__(self, split, **options):
        super().__init__(**options)
        self.split = split

class Joined:
    def __init__(self, *parts):
        self.parts = parts

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.parts[0][index]
"""
#: The job's own module, beside the script.
DIGITS = """
from lib_of_images import Images

class Digits(Images):
    def __init__(self, root="", size=4, transform=None):
        super().__init__(root, transform)
        self.size = size

def doubled(samples):
    return [2 * sample for sample in samples]
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The code folder of a job with data hosts, beside a library; read without them by `follow`."""
    ml = tmp_path / "ml"
    for folder in ("code", "input/data/code", "input/data/digits/train"):
        (ml / folder).mkdir(parents=True)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/lib_of_images.py").write_text(LIBRARY)
    (ml / "code/digits.py").write_text(DIGITS)
    document = JobDocument(
        roles={"data": Role.DATA, "train": Role.TRAIN},
        trainer=TrainerPart(entry_point="train.py", launch=Launch.PYTHON, processes_per_host=1),
        data=DataPart(datasets=()),
    )
    (ml / "input/data/code/launcher.json").write_text(document.to_json())
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(ml))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.syspath_prepend(str(ml / "code"))
    for name in ("lib_of_images", "digits", "pipeline"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for variable in ("RANK", "WORLD_SIZE", "LAUNCHER_RECEIVER"):
        monkeypatch.delenv(variable, raising=False)
    return ml / "code"


def advice(dataset: object, **options: Any) -> str:
    with pytest.raises(DataError, match="exists only in the script's process") as caught:
        DataLoader(dataset, 2, **options)
    return str(caught.value)


def follow(text: str, code: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Type the advice as it is printed, and return the batches in a job without data hosts."""
    parts = re.split(r"^\S.*:\n|; .*:\n|^No attribute .*", text, flags=re.MULTILINE)
    *module, script = [
        "\n".join(line[4:] for line in part.splitlines()) for part in parts[1:] if part
    ]
    if module:
        file = code / f"{re.search(r'DataLoader..(.*?):', script)[1]}.py"  # type: ignore[index]
        sys.modules.pop(file.stem, None)
        file.write_text((file.read_text() if file.exists() else "") + module[0])
        importlib.invalidate_caches()
    (code.parent / "input/data/code/launcher.json").unlink()
    names: dict[str, Any] = {"DataLoader": functools.partial(DataLoader, tensors=False)}
    *before, last = script.splitlines()
    exec("\n".join(before), names)
    return [repr(batch) for batch in eval(last, names)]


def objects(lib: Any, code: Path) -> dict[str, Callable[[], object]]:
    digits = importlib.import_module("digits")
    channel = str(code.parent / "input/data/digits/train")
    scaled = lib.Compose([lib.Scale((3,), lib.Mode.AREA), float])
    return {
        "own class": lambda: digits.Digits("data", 9),
        "own class in a channel": lambda: digits.Digits(channel, 9),
        "own class with a transform": lambda: digits.Digits(channel, transform=scaled),
        "own class with a Path": lambda: digits.Digits(Path(channel)),
        "library's class": lambda: lib.Images("data"),
        "transforms": lambda: lib.Images(channel, transform=scaled),
        "keywords of the class above": lambda: lib.Split("test", transform=scaled),
        "list of objects": lambda: [lib.Mode.AREA.value, 2, 3],
    }


@pytest.mark.parametrize(
    "kind",
    [
        "own class",
        "own class in a channel",
        "own class with a transform",
        "own class with a Path",
        "library's class",
        "transforms",
        "keywords of the class above",
        "list of objects",
    ],
)
def test_the_advice_works_as_printed(
    code: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    dataset = objects(importlib.import_module("lib_of_images"), code)[kind]()
    text = advice(dataset, shuffle=True, collate_fn=importlib.import_module("digits").doubled)
    assert "..." not in text
    followed = follow(text, code, monkeypatch)
    alone = DataLoader(
        dataset,
        2,
        shuffle=True,
        tensors=False,
        collate_fn=importlib.import_module("digits").doubled,
    )
    assert followed == [repr(batch) for batch in alone]


@pytest.mark.parametrize(
    "kind", ["a lambda", "positional arguments", "a class of a function", "flags"]
)
def test_what_no_attribute_shows_is_moved_and_never_typed(code: Path, kind: str) -> None:
    lib: Any = importlib.import_module("lib_of_images")

    class Local(lib.Images):  # type: ignore[misc] # of a module that a test writes
        pass

    dataset = {
        "a lambda": lambda: lib.Images(transform=lib.Compose([lib.Lambda(lambda value: value)])),
        "positional arguments": lambda: lib.Joined([1], [2]),
        "a class of a function": Local,
        "flags": lambda: lib.Images(transform=lib.Scale([1], lib.Flip.ACROSS | lib.Flip.DOWN)),
    }[kind]()
    assert advice(dataset).endswith(
        "; move the lines that make it, with all that they use, into a function train_set() that "
        "returns it, in a module beside the script, pipeline.py; and write in the script:\n"
        '    DataLoader("pipeline:train_set", batch_size=2)'
    )


def test_an_argument_that_may_have_been_given_is_named(code: Path) -> None:
    lib: ModuleType = importlib.import_module("lib_of_images")
    text = advice(lib.Images("data"))
    assert text.endswith("No attribute shows its download: add what the script gives for that")


@pytest.mark.parametrize(
    "written",
    [
        "def train_set():\n    return [1]",
        "def train_set ():\n    return [1]",
        "class train_set(list):\n    pass",
        "train_set = list",
        "from builtins import list as train_set",
    ],
)
def test_a_second_dataset_gets_a_function_of_its_own(code: Path, written: str) -> None:
    (code / "pipeline.py").write_text(f"{written}\n")
    assert 'DataLoader("pipeline:train_set_2", batch_size=2)' in advice([1, 2, 3])


@pytest.mark.parametrize("dataset", ["digits:Digits", [1, 2, 3]], ids=["named", "object"])
def test_a_sampler_gets_a_function_of_its_own(code: Path, dataset: Any) -> None:
    module = "digits" if isinstance(dataset, str) else "pipeline"
    with (code / f"{module}.py").open("a") as file:
        file.write("\ndef order(length, epoch, seed):\n    return range(length)\n")
    text = advice(dataset, sampler=[2, 0])
    assert "    def order_2(length, epoch, seed):\n        return [2, 0]\n" in text
    assert text.endswith(f'sampler="{module}:order_2"')


def test_a_function_without_a_name_is_asked_for(code: Path) -> None:
    text = advice([1, 2, 3], collate_fn=functools.partial(sum, start=1))
    assert text.endswith('and add collate_fn="pipeline:NAME"')


@pytest.mark.slow
@pytest.mark.library("batch-types")
@pytest.mark.filterwarnings("ignore")  # the library's own
def test_the_advice_for_torchvisions_transforms_works(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    if "torchvision" not in sys.modules:  # its build for a GPU wants to find its operators
        for name in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)
    datasets = pytest.importorskip("torchvision.datasets")
    from torchvision.transforms import v2

    transforms = [
        v2.ToImage(),
        v2.RandomResizedCrop((8, 8), interpolation=v2.InterpolationMode.NEAREST),
        v2.RandomApply([v2.ColorJitter(0.3)], p=0.4),
        v2.RandomRotation(15),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.5], [0.2]),
    ]
    dataset = datasets.FakeData(6, (3, 16, 16), transform=v2.Compose(transforms))
    followed = follow(advice(dataset, shuffle=True), code, monkeypatch)
    alone = DataLoader(dataset, 2, shuffle=True, tensors=False)
    assert followed == [repr(batch) for batch in alone]
