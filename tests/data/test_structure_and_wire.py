"""Batches: taken apart, sent, received, put together again."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from batches import TYPES, Box, Point, batches, frame_of, same, sent_and_rebuilt, through_the_wire
from hypothesis import HealthCheck, given, settings

from launcher.data.batches import Assembly, structure, wire
from launcher.data.memory import SlabPool
from launcher.errors import DataError, WireError


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches)
def test_a_batch_survives_bit_for_bit_over_the_wire_and_in_this_process(batch: Any) -> None:
    assert same(sent_and_rebuilt(batch), batch)
    assert same(Assembly(types=TYPES).rebuild(*structure.disassemble(batch)), batch)


def test_a_batch_of_many_megabytes_and_many_arrays_survives() -> None:
    batch = [np.random.default_rng(i).bytes(i) for i in range(1500)]
    batch += [np.random.default_rng(1).integers(0, 255, (9, 1 << 20), np.uint8)]
    assert same(sent_and_rebuilt(batch), batch)


# Contents that are alike ------------------------------------------------------------------------


def nested(number: float) -> dict[str, Any]:
    """A batch whose content is the same for any number, and holds all that a user may change."""
    array = np.full(3, number)
    return {"x": array, "more": [[1, 2], {"y": [array]}], "point": Point([3], {"z": None})}


def payload_of(batch: Any) -> tuple[np.ndarray, int]:
    header, payload = through_the_wire(frame_of(batch))
    return payload, header.content_bytes


def test_batches_of_equal_content_are_views_of_their_own_payloads() -> None:
    payloads = [payload_of(nested(number)) for number in (1.0, 2.0)]
    assert len({payload[-size:].tobytes() for payload, size in payloads}) == 1
    unpacked = [wire.unpack(*each) for each in payloads]
    for number, (payload, _), (tree, arrays) in zip((1.0, 2.0), payloads, unpacked, strict=True):
        assert all(np.shares_memory(array, payload) for array in arrays)
        assert same(Assembly(types=TYPES).rebuild(tree, arrays), nested(number))
    unpacked[0][1][0][:] = 9
    assert unpacked[1][1][0].tolist() == [2.0] * 3


def test_what_a_user_does_to_a_batch_does_not_change_the_next_of_its_content() -> None:
    for number in (1.0, 2.0, 3.0):
        batch = sent_and_rebuilt(nested(number))
        assert same(batch, nested(number))
        batch["x"] += 1
        batch["more"][0].append(3)
        batch["more"][1]["y"].clear()
        batch["more"].reverse()
        batch["point"].x.clear()
        batch["point"].y["z"] = 1
        batch["new"] = batch.pop("more")


def test_who_empties_the_list_of_arrays_does_not_empty_the_next() -> None:
    payload, size = payload_of(nested(1.0))
    for _ in range(3):
        _, arrays = wire.unpack(payload, size)
        assert len(arrays) == 2
        arrays.clear()


def test_a_content_that_fitted_one_payload_is_refused_in_a_smaller_one() -> None:
    payload, size = payload_of(nested(1.0))
    wire.unpack(payload, size)
    with pytest.raises(WireError, match="outside its frame"):
        wire.unpack(payload[64:], size)
    with pytest.raises(WireError, match="outside of it"):
        wire.unpack(payload[-size:], size + 1)


@pytest.mark.parametrize("size", [100, 4095, 4096, 4097, 100_000])
def test_a_content_is_read_whatever_its_size_and_remembered_where_it_is_small(size: int) -> None:
    for number in (1.0, 2.0):
        arrays = [np.full(3, number)]
        rest = wire.WireFrame.pack("r", 0, "w", ["list", ""], arrays).header.content_bytes
        tree = ["list", "a" * (size - rest)]
        header, payload = through_the_wire(wire.WireFrame.pack("r", 0, "w", tree, arrays))
        assert header.content_bytes == size
        read, (array,) = wire.unpack(payload, size)
        assert (read, array.tolist()) == (tree, [number] * 3)
        again, _ = wire.unpack(payload, size)
        assert (again is read) == (size <= 4096)


@pytest.mark.parametrize(
    "array",
    [
        np.array(5),
        np.zeros((2, 0, 3), np.int16),
        np.arange(6).reshape(2, 3).T,
        np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        np.arange(10)[::-2],
        np.broadcast_to(np.float32(2), (3, 2)),
        np.arange(4, dtype=">i4"),
        np.array([1, 2], np.uint64),
        np.array([1 + 2j], np.complex64),
        np.array(["2026-01-01", "NaT"], "datetime64[D]"),
        np.array(["", "né"]),
        np.array([b"a\0b"]),
        np.zeros(3, np.longdouble),
        np.frombuffer(b"readonly", np.uint8),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}{array.strides}",
)
def test_arrays_of_every_layout_arrive_with_their_values(array: np.ndarray) -> None:
    (arrived,) = sent_and_rebuilt([array])
    assert (arrived.dtype, arrived.shape) == (array.dtype, array.shape)
    assert arrived.tolist() == array.tolist()


def test_texts_of_numpy_arrive_as_plain_ones() -> None:
    assert same(sent_and_rebuilt([np.str_("text"), np.bytes_(b"ab")]), ["text", b"ab"])


# Classes ---------------------------------------------------------------------------------------


def test_classes_arrive_when_both_sides_know_them() -> None:
    batch = Point(np.ones(2), Box(corner=Point("a", 1), size=[None]))
    assert same(sent_and_rebuilt(batch), batch)


def test_a_class_that_the_loader_does_not_know_is_named() -> None:
    elsewhere = f"{Point.__module__}:Elsewhere"
    with pytest.raises(DataError, match=r"holds a Elsewhere of .*LoaderOptions\(types="):
        Assembly(types=(Box,)).rebuild(["class", elsewhere, ["x"], 1], [])


def test_a_class_of_the_same_name_and_other_fields_is_refused() -> None:
    sent, other = namedtuple("Point", "x y", module="elsewhere"), namedtuple("Point", "x z")
    message = r"fields \['x', 'y'\], and this process has one with \['x', 'z'\]"
    with pytest.raises(DataError, match=message):
        sent_and_rebuilt(sent(1, 2), types=(other,))


def test_making_a_dataclass_runs_none_of_its_code() -> None:
    @dataclass(slots=True)
    class Counted:
        count: int
        total: int = field(init=False)

        def __post_init__(self) -> None:
            self.count += 1
            self.total = 10 * self.count

    batch = Counted(3)
    arrived = sent_and_rebuilt(batch, types=(Counted,))
    assert (type(arrived), arrived.count, arrived.total) == (Counted, 4, 40)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ((int,), "no NamedTuple, dataclass or enum"),
        ((Point(1, 2),), "no NamedTuple, dataclass or enum"),
        ((Point, namedtuple("Point", "z")), "two classes of one name"),
    ],
    ids=["a class of neither kind", "an instance", "two of one name"],
)
def test_types_that_could_not_be_made_are_refused(types: tuple[Any, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Assembly(types=types)


# What is refused -------------------------------------------------------------------------------


def itself() -> list[Any]:
    holder: list[Any] = []
    holder.append(holder)
    return holder


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (object(), "a batch holds a object of builtins, which has no codec"),
        (Point, "a batch holds a type"),
        ({object: 1}, "a batch holds a type of builtins, which has no codec"),
        (np.array([object()]), "an array of type object"),
        (np.zeros(2, "i4,O"), "records with a field of type object"),
        (np.zeros(2, "V8"), "records with a field of type |V8"),
        (itself(), "nested more than 64 deep, or holds itself"),
    ],
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_sent_is_refused_where_it_is_made(batch: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        structure.disassemble(batch)


@pytest.mark.parametrize(
    "tree",
    [
        ["array", 5],
        ["array", -1],
        ["array", "0"],
        ["array", None],
        ["array", 0.0],
        ["array"],
        ["array", 0, "bfloat16", 1],
        ["tensor", 0, "no_such_type"],
        ["dict", "a"],
        ["dict", ["list"], 1],
        ["int", 3],
        ["int", "x"],
        ["complex", "a"],
        ["text", 0],
        ["class", "Point"],
        ["class", ["Point"], ["x", "y"], 1, 2],
        ["os.system", "true"],
        [],
        [["list"], 1],
        {"a": 1},
    ],
    ids=str,
)
def test_a_tree_that_does_not_fit_its_arrays_is_refused(tree: Any) -> None:
    with pytest.raises(DataError):
        Assembly(types=TYPES).rebuild(tree, [np.array([255], np.uint8)])


def test_a_tree_deeper_than_any_that_is_sent_is_refused() -> None:
    tree: Any = 1
    for _ in range(100_000):
        tree = ["list", tree]
    with pytest.raises(WireError, match="RecursionError"):
        Assembly().rebuild(tree, [])
    while isinstance(tree, list):  # its destructor would recurse as deep
        tree = tree.pop()


# Trees -----------------------------------------------------------------------------------------


def test_the_tree_of_a_batch() -> None:
    batch = {
        "x": np.zeros(1),
        2: (b"ab", "text", "\ud800"),
        (None, 0.5): [None, 1 << 64, 1j],
        "s": np.int8(3),
        "p": Point(True, 1),
    }
    tree, parts = structure.disassemble(batch)
    assert tree == [
        "dict",
        *("x", ["array", 0]),
        *(2, ["tuple", ["bytes", 1], "text", ["text", 2]]),
        *(["tuple", None, 0.5], ["list", None, ["int", "0x10000000000000000"], ["complex", 0, 1]]),
        *("s", ["scalar", 3]),
        *("p", ["class", f"{Point.__module__}:Point", ["x", "y"], True, 1]),
    ]
    assert [part.tolist() for part in parts] == [[0.0], [97, 98], [0xED, 0xA0, 0x80], 3]


def test_a_contiguous_array_is_not_copied() -> None:
    array = np.ones(3)
    _, (part,) = structure.disassemble([array])
    assert np.shares_memory(part, array)


# Slabs -----------------------------------------------------------------------------------------


def test_free_slabs_are_bounded_and_used_again_the_latest_first() -> None:
    retired: list[int] = []
    pool = SlabPool(4 << 20, lambda slab: retired.append(slab.number))
    size = (1 << 20) - 2  # and the marks
    held = [pool.take(size) for _ in range(8)]
    for slab in held:
        pool.release(slab)
    assert retired == [slab.number for slab in held[:4]]
    assert pool.take(size) is held[-1]
    assert pool.take(2 << 20) not in held
