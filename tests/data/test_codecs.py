"""Objects in batches: each arrives as what it was, or is refused with the line to write."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import random
import subprocess
import sys
import threading
import types
import uuid
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from batches import same, sent_and_rebuilt

from launcher.data import register_codec
from launcher.data.batches import Assembly, class_names, structure
from launcher.data.batches.codecs import codec_registry
from launcher.errors import DataError

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
HOUR = datetime.timezone(datetime.timedelta(hours=1), "one")


@pytest.mark.parametrize(
    "value",
    [
        datetime.date(2026, 2, 28),
        datetime.datetime(2026, 10, 25, 2, 30, 1, 999, tzinfo=BERLIN, fold=1),
        datetime.datetime(2026, 1, 1, tzinfo=HOUR),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
        datetime.datetime.min,
        datetime.time(23, 59, fold=1),
        datetime.timedelta(-1, 2, 3),
        BERLIN,
        decimal.Decimal("1.20"),
        decimal.Decimal("-NaN"),
        fractions.Fraction(-1, 3),
        uuid.UUID(int=7),
        pathlib.PosixPath("/a/b"),
        pathlib.PurePosixPath("b"),
        {1, 2},
        frozenset([(1, 2)]),
        bytearray(b"\0x"),
        range(1, 9, 2),
        slice(None, 3),
        collections.deque([1, 2], 3),
        collections.OrderedDict(b=1, a=2),
        collections.Counter("aab"),
        collections.UserDict(a=1),
        collections.defaultdict(list, a=[1]),
        types.SimpleNamespace(a={1}),
        types.MappingProxyType({1: 2}),
        {datetime.date(2026, 1, 1): {frozenset(): None}},
    ],
    ids=lambda value: f"{type(value).__name__} {value}",
)
def test_objects_of_the_standard_library_arrive_as_they_were(value: Any) -> None:
    for tensors in (None, True, False):
        arrived = sent_and_rebuilt([value], tensors=tensors)[0]
        assert type(arrived) is type(value)
        assert repr(arrived) == repr(value)


def test_a_default_of_a_defaultdict_still_makes_values() -> None:
    assert sent_and_rebuilt(collections.defaultdict(list))["new"] == []


@pytest.mark.parametrize(
    "fields",
    [
        "i2,f8,S3",
        "U2,M8[D]",
        "(2,)i4,(1,2)f8,S1",
        [("a", "i4", (2, 2)), ("b", [("c", "f2"), ("d", "M8[s]", (1,))])],
        [(("title", "a"), "i4")],
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 1), (2, 2)], ids=str)
def test_arrays_of_records_arrive_with_their_type_and_bits(fields: Any, shape: Any) -> None:
    array = np.zeros(shape, fields)
    as_records = array.view(np.recarray)
    for value in (array, as_records, *array.reshape(-1)[:1], *as_records.reshape(-1)[:1]):
        arrived = sent_and_rebuilt([value])[0]
        assert type(arrived) is type(value)
        assert arrived.dtype == value.dtype
        assert arrived.tobytes() == value.tobytes()
        assert arrived.shape == value.shape


def test_aligned_and_nested_records_keep_their_layout() -> None:
    kind = np.dtype([("a", "u1"), ("b", [("c", "f8"), ("d", "S3", (2,))])], align=True)
    arrived = sent_and_rebuilt(np.zeros((2, 1), kind))
    assert arrived.dtype == kind
    assert arrived.dtype.isalignedstruct
    arrived["b"]["c"] = 1  # the script's own memory


def test_masked_arrays_arrive_with_mask_and_fill_value() -> None:
    array = np.ma.masked_array([1, 2, 3], [True, False, False], fill_value=9)
    arrived = sent_and_rebuilt(array)
    assert type(arrived) is np.ma.MaskedArray
    assert arrived.filled().tolist() == [9, 2, 3]
    assert arrived.data.tolist() == [1, 2, 3]


# torch -----------------------------------------------------------------------------------------


def sparse_and_nested() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    dense = torch.arange(24.0).reshape(4, 6) % 5
    doubled = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
    parts = [torch.arange(6.0).reshape(2, 3), torch.ones(1, 3)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    return {
        "coordinates": dense.to_sparse(),
        "coordinates twice": doubled,
        "rows": dense.to_sparse_csr(),
        "columns": dense.to_sparse_csc(),
        "blocks by row": dense.to_sparse_bsr((2, 2)),
        "blocks by column": dense.to_sparse_bsc((2, 2)),
        "jagged": nested,
        "jagged, with holes": torch.nested.nested_tensor_from_jagged(
            torch.arange(10.0).reshape(10, 1), torch.tensor([0, 4, 10]), torch.tensor([2, 3])
        ),
        "jagged, transposed": nested.transpose(1, 2),
        "nested": torch.nested.nested_tensor(parts),
    }


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning", "ignore:The PyTorch API of nested")
def test_sparse_and_nested_tensors_keep_their_layout_and_bits() -> None:
    for name, value in sparse_and_nested().items():
        for tensors in (None, True, False):
            arrived = sent_and_rebuilt([value], tensors=tensors)[0]
            assert (type(arrived), arrived.layout) == (type(value), value.layout), name
            if value.is_nested:
                assert [p.tolist() for p in arrived.unbind()] == [
                    p.tolist() for p in value.unbind()
                ], name
            else:
                assert arrived.to_dense().tolist() == value.to_dense().tolist(), name
                assert arrived.shape == value.shape, name
            if name.startswith("coordinates"):
                assert arrived.is_coalesced() == value.is_coalesced()


def test_other_objects_of_torch() -> None:
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    size, kind, arrived = sent_and_rebuilt([torch.Size([1, 2]), torch.bfloat16, parameter])
    assert (type(size), size, kind) == (torch.Size, (1, 2), torch.bfloat16)
    assert type(arrived) is torch.nn.Parameter
    assert not arrived.requires_grad


def test_a_tensor_of_a_class_without_a_codec_is_refused_not_made_plain() -> None:
    torch = pytest.importorskip("torch")

    class Labelled(torch.Tensor):  # type: ignore[misc,name-defined]
        pass

    with pytest.raises(DataError, match=r"Labelled of .*\.register_codec\(Labelled, "):
        structure.disassemble(torch.ones(2).as_subclass(Labelled))


# Pillow ----------------------------------------------------------------------------------------


def images() -> Iterator[tuple[Any, Any]]:
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(96, dtype=np.uint8).reshape(4, 8, 3)
    picture = image.fromarray(pixels)
    for mode in ("RGB", "L", "1", "I", "F", "RGBA", "LA", "CMYK", "YCbCr", "HSV", "P"):
        made = picture.convert(mode)
        yield image, made
    yield image, image.fromarray(np.arange(8, dtype=np.uint16).reshape(2, 4))
    yield image, picture.convert("RGBA").quantize(7)


def test_images_arrive_with_mode_palette_and_info() -> None:
    for image, picture in images():
        picture.info["dpi"] = 72
        if picture.mode == "RGB":
            picture.info["transparency"] = picture.getpixel((0, 0))
        arrived = sent_and_rebuilt(picture)
        assert type(arrived) is image.Image
        assert arrived == picture
        assert arrived.convert().mode == picture.convert().mode
        assert arrived.convert("RGBA").tobytes() == picture.convert("RGBA").tobytes()
        assert arrived.info["dpi"] == 72


def test_an_image_of_a_file_is_loaded_and_its_file_not_needed(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (3, 2), (1, 2, 3)).save(tmp_path / "a.png")
    with image.open(tmp_path / "a.png") as opened:
        arrived = sent_and_rebuilt(opened)
    assert type(arrived) is image.Image
    assert arrived.getpixel((2, 1)) == (1, 2, 3)


# The user's own classes ------------------------------------------------------------------------


class Interval:
    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high


class Colour(enum.IntEnum):
    RED = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Holder:
    held: Any


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> codec_registry.CodecRegistry:
    """An empty registry for this process."""
    made = codec_registry.CodecRegistry()
    for module in (codec_registry, structure, sys.modules[Assembly.__module__]):
        monkeypatch.setattr(module, "registry", made)
    return made


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """This module as one of an installed package, whose classes are not the user's own."""
    monkeypatch.setattr(class_names, "is_own", lambda home: False)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """This module as one of the job's own, wherever the tests are started from."""
    monkeypatch.setattr(class_names, "is_own", lambda home: True)


pytestmark = pytest.mark.usefixtures("registry")


def test_a_class_is_refused_with_the_line_to_write_and_sent_once_it_is_written(
    foreign: None,
) -> None:
    batch = {"spans": [Interval(0, np.ones(2)), Interval(1, Interval(2, {3}))]}
    line = r"register_codec\(Interval, encode=vars, decode=lambda fields: Interval\(\*\*fields\)\)"
    with pytest.raises(DataError, match=f"holds a Interval of .*{line}"):
        structure.disassemble(batch)
    register_codec(Interval, encode=vars, decode=lambda fields: Interval(**fields))
    first, second = sent_and_rebuilt(batch, tensors=True)["spans"]
    assert same(first.high, np.ones(2))  # as the class had it
    assert (second.low, second.high.low, second.high.high) == (1, 2, {3})


def test_plain_classes_are_registered_without_functions(foreign: None) -> None:
    batch = [Pair(Colour.RED, Access.READ | Access.WRITE), Holder(Access(0))]
    with pytest.raises(DataError, match=r"a Colour of .*\(types=\[Colour\]\)"):
        sent_and_rebuilt(batch, types=())
    for kind in (Pair, Colour, Access, Holder):
        register_codec(kind)
    assert sent_and_rebuilt(batch, types=()) == batch
    assert type(sent_and_rebuilt(batch, types=())[0].first) is Colour


def test_plain_classes_may_be_given_to_one_loader(foreign: None) -> None:
    batch = {Colour.RED: Pair(Access.WRITE, Holder(1))}
    assert sent_and_rebuilt(batch, types=(Pair, Colour, Access, Holder)) == batch


def test_a_class_given_to_a_loader_is_not_taken_for_another_of_its_name() -> None:
    register_codec(Pair)
    other = collections.namedtuple("Pair", "first second", module="elsewhere")
    for value in (Pair(1, 2), other(1, 2)):
        assert type(sent_and_rebuilt(value, types=(other,))) is type(value)


def test_a_codec_wins_over_the_fields_of_a_plain_class() -> None:
    register_codec(Holder, encode=lambda held: -held.held, decode=lambda held: Holder(-held))
    assert structure.disassemble(Holder(3))[0][2] == -3
    assert sent_and_rebuilt(Holder(3)) == Holder(3)


def test_a_class_made_anew_under_its_name_replaces_the_earlier_one() -> None:
    def make() -> Any:
        class Again:
            pass

        register_codec(Again, encode=lambda _: None, decode=lambda _: Again(), name="Again")
        return Again

    earlier, later = make(), make()
    assert type(sent_and_rebuilt(later())) is later
    with pytest.raises(DataError, match="has no codec"):
        structure.disassemble(earlier())


def test_a_subclass_of_a_registered_class_is_not_taken_for_it() -> None:
    register_codec(Interval, encode=vars, decode=lambda fields: Interval(**fields))

    class Open(Interval):
        pass

    with pytest.raises(DataError, match="Open"):
        structure.disassemble(Open(0, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": 3}, "is given 3, which is no class"),
        ({"kind": dict}, "dict, which is sent without a codec"),
        ({"kind": Interval}, r"register_codec\(Interval\) needs both functions"),
        ({"kind": Pair, "encode": list}, "needs both functions"),
    ],
    ids=["an object", "plain data", "no functions", "one function"],
)
def test_a_registration_that_could_not_work_is_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        register_codec(**arguments)


def test_errors_of_codecs_name_them() -> None:
    register_codec(Interval, encode=lambda i: i.middle, decode=Interval, name="span")
    with pytest.raises(DataError, match="codec of span could not encode a Interval: Attribute"):
        structure.disassemble(Interval(0, 1))
    with pytest.raises(DataError, match="codec of span could not decode what arrived: TypeError"):
        Assembly().rebuild(["codec", "span", 3], [])
    register_codec(Interval, encode=lambda i: object(), decode=Interval, name="span")
    with pytest.raises(DataError, match="a batch holds a object"):
        structure.disassemble(Interval(0, 1))


def test_nothing_of_an_object_is_dropped_silently() -> None:
    held = Holder(1)
    held.more = 2  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="the attribute 'more', which is no field and would be"):
        structure.disassemble(held)
    del held.held
    with pytest.raises(DataError, match="unset field"):
        structure.disassemble(held)


def test_a_cached_property_is_computed_again() -> None:
    computed = Cached(2)
    assert computed.double == 4
    arrived = sent_and_rebuilt(computed, types=(Cached,))
    assert "double" not in vars(arrived)
    assert arrived.double == 4


@dataclasses.dataclass
class Cached:
    single: int

    @functools.cached_property
    def double(self) -> int:
        return 2 * self.single


def test_a_dataclass_that_is_a_dict_too_is_refused() -> None:
    @dataclasses.dataclass
    class Output(dict):  # type: ignore[type-arg]
        loss: float

    with pytest.raises(DataError, match=r"Output of .* has no codec"):
        structure.disassemble(Output(1.0))


# What arrives imports nothing ------------------------------------------------------------------


def own_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A loaded module beside the running script, with classes and with names of others."""
    script = types.ModuleType("__main__")
    script.__file__ = str(folder / "train.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    module = types.ModuleType("pipeline")
    module.__file__ = str(folder / "pipeline.py")
    source = """
import dataclasses, subprocess
from collections import namedtuple
from http.client import responses
from urllib.parse import ParseResult

Point = namedtuple("Point", "x y")

@dataclasses.dataclass
class Box:
    corner: object

    class Inner(namedtuple("Inner", "z")):
        pass

renamed = Box
box = Box(1)

def function():
    raise SystemExit

class Other:
    pass

def __getattr__(name):
    raise SystemExit(f"asked for {name}")
"""
    monkeypatch.setitem(sys.modules, "pipeline", module)
    exec(source, vars(module))
    return module


def test_classes_of_own_modules_are_known_once_they_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = own_module(tmp_path, monkeypatch)
    batch = [pipeline.Point(1, pipeline.Box(2)), pipeline.Box.Inner(3)]
    assert sent_and_rebuilt(batch, types=()) == batch
    tree, arrays = structure.disassemble(batch)
    del sys.modules["pipeline"]
    with pytest.raises(DataError, match="import it in the script, from pipeline import Box"):
        Assembly().rebuild(tree, arrays)
    assert "pipeline" not in sys.modules


def test_classes_of_the_running_script_are_known_by_its_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_module(tmp_path, monkeypatch)
    script = sys.modules["__main__"]
    exec("import enum\nclass Kind(enum.Enum):\n    A = 1", vars(script))
    tree, _ = structure.disassemble(script.Kind.A)  # type: ignore[attr-defined]
    assert tree == ["enum", "train:Kind", "A"]
    assert Assembly().rebuild(tree, []) is script.Kind.A  # type: ignore[attr-defined]


NAMES = [
    *(
        "os:system",
        "os:stat_result",
        "sys:exit",
        "builtins:exec",
        "builtins:int",
        "antigravity:Fly",
    ),
    *("pipeline:subprocess.Popen", "pipeline:ParseResult", "pipeline:responses", "pipeline:Other"),
    *("pipeline:renamed", "pipeline:box", "pipeline:function", "pipeline:__getattr__", "pipeline:"),
    *("pipeline:Box.__class__", "pipeline:Box.__init__", "pipeline:Box.Inner.__base__", "pipeline"),
    *("pipeline:Point.__new__.__globals__", "pipeline:missing", "pipeline:__builtins__", ":Point"),
    *(
        "__main__:pipeline",
        "train:pipeline.Point",
        "this:s",
        "../pipeline:Point",
        "subprocess:Popen",
    ),
    *("PIL.Image:Image", "collections.OrderedDict", "launcher.errors:DataError", "", ":", "."),
    *("x" * 100_000, "\0", "\ud800", "pipeline:Point\n", "pipeline:Point ", "pipeline:point"),
]


@pytest.mark.parametrize("kind", ["class", "enum", "codec", "object"])
def test_a_name_selects_nothing_but_what_is_known(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_module(tmp_path, monkeypatch)
    coin = random.Random(1)
    parts = ["pipeline", "os", ":", ".", "Point", "__class__", "__init__", "x", "Box", " ", "\0"]
    names = [*NAMES, *("".join(coin.choices(parts, k=coin.randrange(1, 6))) for _ in range(2000))]
    for odd in ([], {}, None, 3, ["list"], ["codec", "set", []]):
        with pytest.raises(DataError):
            Assembly().rebuild([kind, odd, ["x", "y"], 1, 2], [])
    before = set(sys.modules)
    for name in names:
        if name in ("pipeline:Point", "pipeline:Box", "collections.OrderedDict"):
            continue
        for rest in ([["x", "y"], 1, 2], [["corner"], 1], ["x"], [1]):
            with pytest.raises(DataError):
                Assembly().rebuild([kind, name, *rest], [])
    loaded = {name for name in set(sys.modules) - before if not name.startswith("launcher.")}
    assert not loaded & {"antigravity", "this", "pipeline.Point", "PIL.Image"}


CONTENTS: list[Any] = [
    *(None, True, 0, -1, 1 << 62, 0.5, "x", "object", "O", "|O8", "V3", "/etc/passwd", "../x"),
    *(["list"], ["list", 1], ["list", 1, 2, 3], ["dict"], ["dict", "a", 1], ["array", 0]),
    ["list", "RGB", ["list", 1 << 30, 1 << 30], ["bytes", 0], None, ["dict"]],
    ["list", ["list", 9, -9], ["list", 3], ["array", 0]],
    ["list", "O", ["list", 1], ["array", 0]],
    ["list", ["list", ["list", "a"], ["list", "|O"], ["list", 0], 8, False], ["list", 1]],
    ["list", "torch.sparse_csr", ["list", 2, 2], ["array", 0], ["array", 0], ["array", 0]],
    ["list", ["tensor", 0], ["tensor", 0], None, 1],
    ["list", ["tensor", 0], ["tensor", 0], ["tensor", 0], 7],
]


def test_contents_that_no_encoder_makes_are_refused() -> None:
    pytest.importorskip("torch")
    for value in (1.5, np.zeros(1, "i4,i4"), {1}):  # load what is shipped
        structure.disassemble([value, datetime.date.min])
    names = [
        *("numpy.structured", "numpy.recarray", "numpy.void", "numpy.record", "numpy.MaskedArray"),
        *("torch.sparse", "torch.nested", "torch.Size", "torch.dtype", "torch.nn.Parameter"),
        *("PIL.Image", "datetime.datetime", "datetime.timezone", "zoneinfo.ZoneInfo", "uuid.UUID"),
        *("builtins.range", "builtins.slice", "decimal.Decimal", "fractions.Fraction"),
    ]
    refused = 0
    for name in names:
        for content in CONTENTS:
            with contextlib.suppress(DataError):
                Assembly().rebuild(["codec", name, content], [np.array([200, 1, 3], np.int64)])
                refused -= 1
            refused += 1
    assert refused > 0.8 * len(names) * len(CONTENTS)


def test_the_first_object_of_a_shipped_codec_imports_its_library_and_no_other() -> None:
    pytest.importorskip("PIL")
    program = """
import sys
from launcher.data.batches import Assembly
from launcher.errors import DataError
for name in ("PIL.ImageShow", "PIL", "antigravity.x", "torch.hub"):
    try:
        Assembly().rebuild(["codec", name, ["list"]], [])
    except DataError as error:
        print(error)
print({"PIL", "antigravity", "torch"} & set(sys.modules))
content = ["list", "L", ["list", 1, 1], ["bytes", 0], None, ["dict"]]
print(Assembly().rebuild(["codec", "PIL.Image", content], [__import__("numpy").array([7], "u1")]))
sys.modules["tensordict"] = None  # as if it were not installed
try:
    Assembly().rebuild(["codec", "tensordict.TensorDict", ["list"]], [])
except DataError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=540, check=True
    )
    *refused, known, image, missing = done.stdout.splitlines()
    assert len([each for each in refused if "this process has no codec" in each]) == 4
    assert known == "set()"
    assert image.startswith("<PIL.Image.Image image mode=L size=1x1")
    assert "holds a tensordict.TensorDict, and" in missing
    assert "cannot import tensordict" in missing


# The job's own classes, by their attributes ----------------------------------------------------


class Named(dict):  # type: ignore[type-arg]
    pass


class Words(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        raise AssertionError("it is not called")


class Text(str):
    pass


class Count(int):
    pass


class Ratio(float):
    pass


class Triple(tuple):  # type: ignore[type-arg]
    __slots__ = ()


class Image(np.ndarray):
    pass


class Slotted:
    __slots__ = ("held",)


class Grown(Interval):
    def __init__(self) -> None:
        raise AssertionError("it is not called")


def with_attributes(made: Any, **attributes: Any) -> Any:
    made.__dict__.update(attributes)
    return made


OWN = [
    with_attributes(Named(a=np.ones(2), b=[1]), source={"disk"}),
    with_attributes(Words([1, Named()]), of=Text("x")),
    with_attributes(Text("x\ud83d"), at=3),
    with_attributes(Count(1 << 70), at=3),
    Ratio(-0.0),
    Triple((1, "a")),
    with_attributes(np.ones((2, 3)).view(Image), spacing=(1, 2)),
    with_attributes(Grown.__new__(Grown), low=np.ones(1), high=Interval(1, {2})),
]


def held(value: Any) -> Any:
    """All that an object holds, as plain data."""
    if isinstance(value, np.ndarray):
        return type(value), value.tolist(), held(vars(value)) if type(value) is Image else ()
    content: Any = ()
    if isinstance(value, dict):
        content = [(key, held(part)) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        content = [held(part) for part in iter(value)]
    elif isinstance(value, (str, int, float)):
        content = ascii(value)
    return type(value), content, [(k, held(v)) for k, v in getattr(value, "__dict__", {}).items()]


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("value", OWN, ids=lambda value: type(value).__name__)
def test_objects_of_own_classes_arrive_by_their_content_and_attributes(value: Any) -> None:
    arrived = sent_and_rebuilt([value])[0]
    assert held(arrived) == held(value)


@pytest.mark.usefixtures("own")
def test_what_a_subclass_of_dict_holds_is_converted_and_its_attributes_are_not() -> None:
    torch = pytest.importorskip("torch")
    value = with_attributes(Named(a=np.ones(2)), b=np.ones(2))
    arrived = sent_and_rebuilt(value, tensors=True)
    assert type(arrived["a"]) is torch.Tensor
    assert type(arrived.b) is np.ndarray


@pytest.mark.usefixtures("own")
def test_subclasses_of_tensor_keep_class_attributes_strides_and_gradients() -> None:
    torch = pytest.importorskip("torch")
    value = torch.rand(2, 3, dtype=torch.bfloat16).T.as_subclass(labelled())
    value.requires_grad_(True)
    value.label = {"a": torch.ones(1)}
    arrived = sent_and_rebuilt([value], tensors=False)[0]
    assert type(arrived) is labelled()
    assert torch.equal(arrived.detach(), value.detach())
    assert (arrived.stride(), arrived.requires_grad, arrived.is_leaf) == ((1, 3), True, True)
    assert arrived.label["a"].tolist() == [1]


def labelled() -> Any:
    import torch

    if "Labelled" not in globals():

        class Labelled(torch.Tensor):  # type: ignore[misc,name-defined]
            pass

        Labelled.__qualname__ = "Labelled"
        globals()["Labelled"] = Labelled
    return globals()["Labelled"]


@pytest.mark.parametrize(
    "value",
    [Slotted(), threading.local(), KeyError(1), types.FunctionType],
    ids=lambda value: type(value).__name__,
)
def test_objects_that_hold_more_than_attributes_are_refused(value: Any) -> None:
    with pytest.raises(DataError, match="has no codec"):
        structure.disassemble([value])


@pytest.mark.usefixtures("own")
def test_an_object_that_holds_itself_is_refused() -> None:
    value = Interval(0, 1)
    value.high = value  # type: ignore[assignment]
    with pytest.raises(DataError, match="or holds itself; or DataLoader"):
        structure.disassemble([value])


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "content", "attributes"),
    [
        ("Named", ["list"], ["dict"]),
        ("Named", None, ["dict"]),
        ("Interval", ["dict"], ["dict"]),
        ("Interval", None, ["list", 1]),
        ("Opened", None, ["dict"]),
        ("Slotted", None, ["dict"]),
        ("Holder.__init__", None, ["dict"]),
        ("OWN", None, ["dict"]),
    ],
)
def test_contents_that_no_object_has_are_refused(name: str, content: Any, attributes: Any) -> None:
    with pytest.raises(DataError):
        Assembly().rebuild(["object", f"{__name__}:{name}", content, attributes], [])


# Pickles ---------------------------------------------------------------------------------------


class Opened:
    """An object that only its own way can write."""

    def __init__(self, name: str) -> None:
        self.lock, self.name = threading.Lock(), name

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return Opened, (self.name,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opened) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Row(dict):  # type: ignore[type-arg]
    """A dict that only its own way can write."""

    def __reduce__(self) -> tuple[type, tuple[dict[Any, Any]]]:
        return Row, (dict(self),)


class Hidden(NamedTuple):
    held: Any


@pytest.mark.parametrize(
    "value",
    [
        Opened("a"),
        {Opened("key"): 1},
        functools.partial(sorted, reverse=True),
        sorted,
        Opened,
        np.array([1, "a", None], dtype=object),
        collections.defaultdict(functools.partial(int, 1), a=[1]),
        Row(a=1),
        Holder(Row(a={Opened("a"): [Opened("b")]})),
        Hidden(3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_codec_is_pickled_only_where_that_is_allowed(value: Any, foreign: None) -> None:
    batch = {"x": [np.arange(3), value]}
    with pytest.raises(DataError, match=r"or DataLoader\(\.\.\., allow_pickle=True\)"):
        sent_and_rebuilt(batch)
    array, arrived = sent_and_rebuilt(batch, allow_pickle=True)["x"]
    assert array.tolist() == [0, 1, 2]
    assert type(arrived) is type(value)
    assert repr(arrived) == repr(value) or arrived == value
    tree, arrays = structure.disassemble(batch, allow_pickle=True)
    with pytest.raises(DataError, match=r"which this loader refuses|does not know"):
        Assembly().rebuild(tree, arrays)


class Trap:
    """Writes a file where it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, tuple[Path, str]]:
        return Path.write_text, (self.file, "run")


def test_a_pickle_runs_what_it_says_only_where_pickles_are_allowed(tmp_path: Path) -> None:
    parts = structure.disassemble([Trap(tmp_path / "here")], allow_pickle=True)
    with pytest.raises(DataError, match="holds a pickle, which this loader refuses"):
        Assembly().rebuild(*parts)
    assert not (tmp_path / "here").exists()
    Assembly(allow_pickle=True).rebuild(*parts)
    assert (tmp_path / "here").exists()  # the price, as SECURITY.md has it


def test_a_list_that_holds_itself_is_pickled_as_one() -> None:
    batch: list[Any] = [1]
    batch.append(batch)
    arrived = sent_and_rebuilt(batch, allow_pickle=True)
    assert arrived[1] is arrived


def test_what_pickle_cannot_write_or_read_is_refused() -> None:
    with pytest.raises(DataError, match="which pickle cannot write: TypeError"):
        structure.disassemble([threading.Lock()], allow_pickle=True)
    with pytest.raises(DataError, match="pickled part of a batch could not be read: Unpickling"):
        Assembly(allow_pickle=True).rebuild(["pickle", 0], [np.zeros(3, np.uint8)])


def test_memory_of_arrays_and_tensors_stays_out_of_the_pickle() -> None:
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(1000, 8, dtype=torch.bfloat16)
    tree, arrays = structure.disassemble(Row(a=np.zeros(9000), b=linear), allow_pickle=True)
    assert tree[0] == "pickle"
    assert sorted(map(len, arrays))[-2:] == [16_000, 72_000]
    assert sum(map(len, arrays)) < 90_000
    arrived = sent_and_rebuilt(Row(b=linear), allow_pickle=True)["b"]
    assert torch.equal(arrived.weight, linear.weight)
    assert arrived.weight.requires_grad
    arrived.weight.data[0] = 1  # the script's own memory
