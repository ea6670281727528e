"""Samples to batches: what torch's default_collate gives, with torch and without."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np
import pytest
from batches import Box, Point, same

from launcher.data.batches.assembly import Assembly
from launcher.data.batches.collation import collate
from launcher.data.batches.structure import disassemble
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
