"""Samples to batches: what torch's default_collate gives, with torch and without."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np
import pytest
from batches import Box, Point, same

from launcher.data import DataLoader, register_codec
from launcher.data.batches import Assembly, class_names, collate, collation, disassemble, structure
from launcher.data.batches.codecs import codec_registry
from launcher.errors import DataError

Pair = namedtuple("Pair", "first second")

SCALARS = [getattr(np, name)(1) for name in ("bool_", "int8", "uint8", "int16", "int32", "int64")]
SCALARS += [getattr(np, name)(1.5) for name in ("float16", "float32", "float64")]


@pytest.mark.parametrize(
    "sample",
    [
        3,
        2.5,
        True,
        -(1 << 62),
        float("nan"),
        "text",
        b"raw",
        *SCALARS,
        *[np.full((2, 3), scalar) for scalar in SCALARS],
        np.zeros((0, 2)),
        np.array(7),
        np.arange(6)[::2],
        (np.zeros((2, 2), np.float32), 7),
        ["a", (1, "b")],
        ("a", ["b"], {"c": "d"}),
        {"image": np.ones(3, np.uint8), "meta": {"label": 4, "name": "x"}, "raw": b"y"},
        [1, [2.0, b"raw"]],
        Pair(1, "a"),
        (Pair(np.ones(2), [1]), {"pair": Pair("a", 2.0)}),
        (),
        {},
        OrderedDict(image=np.ones(3), label=1, of=[{"score": 2.0}]),
        defaultdict(int, label=1),
        {"one": OrderedDict(label=1)},
    ],
    ids=str,
)
def test_collating_agrees_with_torch_in_values_and_types(sample: Any) -> None:
    pytest.importorskip("torch")
    from torch.utils.data import default_collate

    assembly = Assembly(tensors=True, types=(Pair,))
    ours = assembly.rebuild(*disassemble(collate([sample, sample])))
    assert same(ours, default_collate([sample, sample]))


def test_tensors_are_collated_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    for tensor in (
        torch.ones(2, 3),
        torch.tensor(1.5, dtype=torch.bfloat16),
        torch.ones(2, dtype=torch.float8_e5m2),
        torch.tensor([True]),
        torch.ones(1, requires_grad=True),
        torch.tensor([1 + 2j]).conj(),
        torch.ones(2, 3, dtype=torch.uint16).T,
    ):
        collated = Assembly(tensors=True).rebuild(*disassemble(collate([tensor] * 3)))
        expected = torch.utils.data.default_collate([tensor] * 3).detach().resolve_conj()
        assert same(collated, expected)


@pytest.mark.parametrize(
    ("samples", "batch"),
    [
        (["a", "b"], ["a", "b"]),
        ([(1, "a"), (2, "b")], [np.array([1, 2]), ("a", "b")]),
        ([{"x": 1.5}, {"x": 2.5}], {"x": np.array([1.5, 2.5])}),
        ([1, 2.5], np.array([1.0, 2.5])),
        ([1j], np.array([1j])),
        ([Point(1, "a"), Point(2, "b")], Point(np.array([1, 2]), ("a", "b"))),
        ([Box(1, "a"), Box(2, "b")], Box(np.array([1, 2]), ["a", "b"])),
        ([np.array("a"), np.array("bc")], np.array(["a", "bc"])),
        ([np.datetime64("2026-01-01")] * 2, np.array(["2026-01-01"] * 2, "M8[D]")),
        ([np.zeros((1, 2), np.float32)] * 3, np.zeros((3, 1, 2), np.float32)),
        ([np.ma.masked_array([1, 2])], np.array([[1, 2]])),
    ],
    ids=str,
)
def test_samples_are_collated(samples: list[Any], batch: Any) -> None:
    assert same(collate(samples), batch)


def test_collating_a_dataclass_runs_none_of_its_code() -> None:
    @dataclass
    class Counted:
        count: int

        def __post_init__(self) -> None:
            self.count += 1

    assert collate([Counted(1), Counted(2)]).count.tolist() == [2, 3]


class Meta(dict):  # type: ignore[type-arg]
    """A dict with an attribute."""

    source = ""


class View(Mapping[str, object]):
    def __init__(self, content: Mapping[str, object]) -> None:
        self.content = dict(content)

    def __getitem__(self, key: str) -> object:
        return self.content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.content)

    def __len__(self) -> int:
        return len(self.content)


class Boxes(list):  # type: ignore[type-arg]
    pass


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    made = codec_registry.CodecRegistry()
    for module in (codec_registry, collation, structure):
        monkeypatch.setattr(module, "registry", made)
    register_codec(Meta, encode=lambda meta: [dict(meta), meta.source], decode=decode_meta)
    register_codec(View, encode=dict, decode=View)
    register_codec(Boxes, encode=list, decode=Boxes)


def decode_meta(content: Any) -> Meta:
    meta = Meta(content[0])
    meta.source = content[1]
    return meta


@pytest.mark.parametrize("way", ["registered", "own"])
def test_mappings_and_lists_keep_their_class_as_in_torch(
    way: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(class_names, "is_own", lambda home: way == "own")
    if way == "registered":
        request.getfixturevalue("registered")
    from torch.utils.data import default_collate

    meta = Meta(label=1)
    meta.source = "disk"
    for sample in (meta, View({"a": {"b": 2}}), Boxes([1, 2.5]), [Boxes(["x"])]):
        ours = Assembly(tensors=False).rebuild(*disassemble(collate([sample, sample])))
        assert type(ours) is type(default_collate([sample, sample]))
    assert collate([meta, meta]).source == "disk"
    assert type(collate([[Boxes(["x"])]] * 2)[0]) is Boxes


@pytest.mark.parametrize(
    ("sample", "line"),
    [
        (Meta(a=1), r"register_codec\(Meta, encode=dict, decode=Meta\)"),
        (View({"a": 1}), r"register_codec\(View, encode=dict, decode=View\)"),
        (Boxes([1]), r"register_codec\(Boxes, encode=list, decode=Boxes\)"),
        ({"deep": [Boxes([1])]}, "a Boxes of .*test_collation, which has no codec"),
    ],
    ids=["dict", "Mapping", "list", "within others"],
)
def test_a_mapping_or_list_without_a_codec_is_refused_with_the_line_to_write(
    sample: Any, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without a batch size: its class would be lost, which torch keeps."""
    monkeypatch.setattr(class_names, "is_own", lambda home: False)
    for batch_size in (2, None):
        with pytest.raises(DataError, match=line):
            list(DataLoader([sample, sample], batch_size, name="s"))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([np.zeros(2), np.zeros(3)], r"different shapes, \(2,\) and \(3,\)"),
        ([(1, 2), (1,)], "different numbers of parts"),
        ([object()], "a sample holds a object"),
        ([None], "a sample holds a NoneType"),
        ([1 << 63], "do not fit into 64 bits"),
        ([-1, 1 << 63], "do not fit into 64 bits"),
        ([1, "a"], "are not alike"),
        ([np.array([object()])], "an array of type object"),
        ([np.ma.masked_array([1, 2], [True, False])], "masked values, and the mask would be lost"),
        ([np.float64(1), np.ma.masked], "masked values, and the mask would be lost"),
        ([Point(1, 2), Pair(1, 2)], "hold a Point and a Pair: make them alike"),
        ([Box(1, 2), make_dataclass("Line", ["start", "end"])(1, 2)], "hold a Box and a Line"),
    ],
    ids=[
        *("shapes", "parts", "kind", "none", "int", "ints", "mixed", "objects"),
        *("mask", "masked", "namedtuples", "dataclasses"),
    ],
)
def test_samples_that_make_no_batch_are_refused(samples: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        disassemble(collate(samples))


def test_tensors_that_make_no_batch_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(DataError, match=r"different shapes, \(1,\) and \(2,\)"):
        collate([torch.ones(1), torch.ones(2)])
    with pytest.raises(DataError, match="hold a Tensor and a int: make them alike"):
        collate([torch.ones(1), 3])
    with pytest.raises(DataError, match=r"of the kind torch\.sparse"):
        collate([torch.eye(2).to_sparse()] * 2)
