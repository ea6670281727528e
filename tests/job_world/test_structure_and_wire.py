"""Batches: collated as torch would, taken apart, sent, received, put together again."""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from launcher.data import structure, wire
from launcher.data.slabs import SlabPool
from launcher.errors import DataError, WireError

dtypes = hnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufcmM" and dtype.itemsize <= 16)
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
)
batches = st.recursive(
    arrays | st.text() | st.binary() | st.none(),
    lambda part: (
        st.lists(part, max_size=3)
        | st.tuples(part, part)
        | st.dictionaries(st.text(max_size=4), part, max_size=3)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and (one.dtype, one.shape) == (other.dtype, other.shape)
            and one.tobytes() == other.tobytes()
        )
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(same(a, b) for a, b in zip(one, other, strict=True))
        )
    return type(one) is type(other) and one == other


def through_the_wire(frame: wire.Frame) -> tuple[dict[str, Any], np.ndarray]:
    """Send a frame over a real socket and read it as the receiver does."""
    here, there = socket.socketpair()
    for end in (here, there):
        end.settimeout(20)  # so that what is lost on the way fails, and does not hang
    with here, there:
        sender = threading.Thread(target=frame.send, args=(here,), daemon=True)
        sender.start()
        prefix = bytearray(wire.PREFIX_BYTES)
        assert wire.receive_exactly(there, memoryview(prefix))
        header_bytes, payload_bytes = wire.read_prefix(prefix)
        header, payload = bytearray(header_bytes), np.empty(payload_bytes, np.uint8)
        assert wire.receive_exactly(there, memoryview(header))
        assert wire.receive_exactly(there, payload.data)
        sender.join()
    return wire.read_header(header), payload


@given(batches)
def test_a_batch_survives_the_wire_bit_for_bit(batch: Any) -> None:
    tree, parts = structure.take_apart(batch)
    header, payload = through_the_wire(wire.Frame.pack("run", 3, "worker", tree, parts))
    assert (header["run"], header["step"], header["worker"]) == ("run", 3, "worker")
    received = wire.view_arrays(header["arrays"], payload)
    assert same(structure.rebuild(header["tree"], received, lambda array: array), batch)


def test_a_batch_of_many_megabytes_and_many_arrays_survives() -> None:
    batch = [np.random.default_rng(i).bytes(i) for i in range(1500)]
    batch += [np.random.default_rng(1).integers(0, 255, (9, 1 << 20), np.uint8)]
    tree, parts = structure.take_apart(batch)
    header, payload = through_the_wire(wire.Frame.pack("r", 0, "w", tree, parts))
    received = wire.view_arrays(header["arrays"], payload)
    assert same(structure.rebuild(header["tree"], received, lambda array: array), batch)


def test_arrays_lie_aligned_in_the_payload() -> None:
    tree, parts = structure.take_apart([np.zeros(3, np.uint8), np.zeros(5), b"xyz", np.ones(2)])
    header, _ = through_the_wire(wire.Frame.pack("r", 0, "w", tree, parts))
    assert [offset % wire.ALIGNMENT for _, _, offset in header["arrays"]] == [0] * 4


def test_a_batch_that_the_other_side_would_refuse_is_refused_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "HEADER_LIMIT", 1000)
    tree, parts = structure.take_apart(["x" * 1000])
    with pytest.raises(DataError, match="of text and structure"):
        wire.Frame.pack("r", 0, "w", tree, parts)


def test_free_slabs_are_bounded_and_used_again_the_latest_first() -> None:
    retired: list[int] = []
    pool = SlabPool(4 << 20, lambda slab: retired.append(slab.number))
    held = [pool.take(1 << 20) for _ in range(8)]
    for slab in held:
        pool.give(slab)
    assert retired == [slab.number for slab in held[:4]]
    assert pool.take(1 << 20) is held[-1]
    assert pool.take(2 << 20) not in held


@given(st.binary(min_size=wire.PREFIX_BYTES, max_size=wire.PREFIX_BYTES))
def test_a_prefix_of_garbage_is_refused_before_memory_is_taken(data: bytes) -> None:
    if data.startswith(wire.MAGIC):
        return
    with pytest.raises(WireError, match="not a frame"):
        wire.read_prefix(data)


def test_a_frame_beyond_the_limits_is_refused() -> None:
    with pytest.raises(WireError, match="beyond the limits"):
        wire.read_prefix(struct.pack("<4sIQ", wire.MAGIC, 10, 1 << 60))


@given(st.binary() | st.just(b'{"run": 1}') | st.just(b'{"run":"r","step":"0","worker":"w"}'))
def test_a_header_of_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        wire.read_header(data)


@pytest.mark.parametrize(
    "entry",
    [
        ["|O", [1], 0],
        ["<f8", [1000], 0],
        ["<f8", [2], -8],
        ["<f8", [-1, -1], 0],
        ["nonsense", [1], 0],
        [["<f8"], [1], 0],
        ["<f8", "ab", 0],
        ["<f8", [1]],
        ["<f8", [1 << 62, 4], 0],
        None,
    ],
    ids=str,
)
def test_an_array_entry_that_does_not_fit_is_refused(entry: Any) -> None:
    with pytest.raises(WireError):
        wire.view_arrays([entry], np.zeros(64, np.uint8))


@pytest.mark.parametrize("tree", [{"array": 5}, {"dict": ["a"], "parts": []}, {}, 3], ids=str)
def test_a_tree_that_does_not_fit_its_arrays_is_refused(tree: Any) -> None:
    with pytest.raises(WireError):
        structure.rebuild(tree, [], lambda array: array)


@pytest.mark.parametrize(
    "sample",
    [
        3,
        2.5,
        True,
        np.float32(1.5),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        (np.zeros((2, 2), np.float32), 7),
        {"image": np.ones(3, np.uint8), "meta": {"label": 4, "name": "x"}},
        [1, [2.0, b"raw"]],
    ],
    ids=str,
)
def test_collating_agrees_with_torch(sample: Any) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import default_collate

    ours, theirs = structure.collate([sample, sample]), default_collate([sample, sample])

    def agree(mine: Any, other: Any) -> bool:
        if isinstance(other, torch.Tensor):
            return same(mine, other.numpy())
        if isinstance(other, dict):
            return list(mine) == list(other) and all(agree(mine[k], other[k]) for k in other)
        if isinstance(other, (list, tuple)):
            return len(mine) == len(other) and all(map(agree, mine, other))
        return bool(mine == other)

    assert agree(ours, theirs)


def test_tensors_in_samples_are_collated_too() -> None:
    torch = pytest.importorskip("torch")
    collated = structure.collate([torch.ones(2, 3), torch.zeros(2, 3)])
    assert same(collated, np.stack([np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)]))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([np.zeros(2), np.zeros(3)], r"different shapes, \(2,\) and \(3,\)"),
        ([(1, 2), (1,)], "different numbers of parts"),
        ([object()], "a sample holds a object"),
        ([np.array([object()])], "Python objects"),
    ],
    ids=["shapes", "parts", "kind", "objects"],
)
def test_samples_that_make_no_batch_are_refused(samples: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        structure.take_apart(structure.collate(samples))


# Trees -----------------------------------------------------------------------------------------


def test_the_tree_of_a_batch() -> None:
    batch = {"x": np.zeros(1), 2: (b"ab", "text"), None: [None]}
    tree, parts = structure.take_apart(batch)
    assert tree == {
        "dict": ["x", 2, None],
        "parts": [
            {"array": 0},
            {"tuple": [{"bytes": 1}, {"value": "text"}]},
            {"list": [{"value": None}]},
        ],
    }
    assert [part.tolist() for part in parts] == [[0.0], [97, 98]]


def test_arrays_are_made_contiguous_and_keep_their_shapes() -> None:
    for array in (np.arange(6).reshape(2, 3).T, np.array(5), np.zeros((2, 0))):
        _, (part,) = structure.take_apart(array)
        assert part.flags.c_contiguous
        assert part.shape == array.shape
        assert part.tolist() == array.tolist()


@pytest.mark.parametrize("key", [("a",), b"a", frozenset()], ids=str)
def test_a_key_that_json_would_change_is_refused(key: object) -> None:
    with pytest.raises(DataError, match="a batch holds a dict with the key"):
        structure.take_apart({"fine": None, key: None})


@pytest.mark.parametrize(
    ("samples", "batch"),
    [
        (["a", "b"], ["a", "b"]),
        ([b"a", b"b"], [b"a", b"b"]),
        ([(1, "a"), (2, "b")], [np.array([1, 2]), ["a", "b"]]),
        ([{"x": 1.5}, {"x": 2.5}], {"x": np.array([1.5, 2.5])}),
        ([True, False], np.array([True, False])),
        ([1j], np.array([1j])),
        ([np.int8(1), np.int8(2)], np.array([1, 2], np.int8)),
        ([np.zeros((1, 2), np.float32)] * 3, np.zeros((3, 1, 2), np.float32)),
    ],
    ids=str,
)
def test_samples_are_collated(samples: list[Any], batch: Any) -> None:
    assert same(structure.collate(samples), batch)


def test_leaves_become_what_the_user_wants() -> None:
    tree = {"tuple": [{"array": 0}, {"bytes": 1}, {"value": None}]}
    arrays = [np.ones(2), np.frombuffer(b"xy", np.uint8)]
    assert structure.rebuild(tree, arrays, lambda array: array.sum()) == (2.0, b"xy", None)


def test_a_tensor_shares_the_memory_of_its_array() -> None:
    torch = pytest.importorskip("torch")
    array = np.zeros(2)
    structure.as_tensor(array)[0] = 3
    assert array.tolist() == [3, 0]
    assert isinstance(structure.as_tensor(array), torch.Tensor)
