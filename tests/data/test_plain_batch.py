"""Batches of plain data in the script's process: what a job would deliver, and the script's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import TYPES, Point, batches, keys, numbers, same, texts
from hypothesis import given
from hypothesis import strategies as st
from loader_arguments import loader_arguments

from launcher.data import DataLoader, LoaderOptions
from launcher.data.batches import Assembly, PlainBatch, copy_plain, structure
from launcher.errors import DataError, SampleError

plain = st.recursive(
    numbers | texts | st.binary(max_size=8) | st.none(),
    lambda part: (
        st.lists(part, max_size=3)
        | st.lists(st.lists(st.integers(), max_size=3), max_size=3)
        | st.tuples(part, part)
        | st.dictionaries(texts | st.integers(), part, max_size=3)
    ),
    max_leaves=8,
)


def delivered(batch: object) -> object:
    return Assembly(types=TYPES).rebuild(*structure.disassemble(batch))


@given(plain)
def test_plain_data_is_copied_as_a_job_delivers_it(batch: object) -> None:
    copied = copy_plain(batch)
    assert copied is not None
    assert same(copied.content, delivered(batch))
    assert not mutable_parts(copied.content) & mutable_parts(batch)
    assert Assembly().rebuild(copied, []) is copied.content


@pytest.mark.long
@given(batches | st.dictionaries(keys, plain, max_size=2))
def test_any_other_batch_is_left_to_the_general_way(batch: object) -> None:
    copied = copy_plain(batch)
    assert copied is None or same(copied.content, delivered(batch))


def mutable_parts(value: Any) -> set[int]:
    """Identities of the lists and dicts in a batch."""
    parts = list(value.values()) if isinstance(value, dict) else value
    own = {id(value)} if isinstance(value, (list, dict)) else set()
    if not isinstance(parts, (list, tuple)):
        return own
    return own.union(*map(mutable_parts, parts))


class Number(int):
    """An int that may hold more."""


HOLDING_ITSELF: list[Any] = []
HOLDING_ITSELF.append(HOLDING_ITSELF)


@pytest.mark.parametrize(
    "part",
    [
        np.zeros(1),
        np.float64(1),
        np.str_("a"),
        Number(1),
        Point(1, 2),
        bytearray(b"a"),
        {1},
        {(1, 2): 3},
        HOLDING_ITSELF,
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_is_more_than_plain_is_not_copied(part: object, depth: int) -> None:
    for _ in range(depth):
        part = [part]
    assert copy_plain(part) is None
    assert copy_plain([[1], part]) is None


@pytest.mark.parametrize("levels", range(structure.MAX_DEPTH - 2, structure.MAX_DEPTH + 3))
@pytest.mark.parametrize("kind", [list, tuple, "dict"])
def test_what_is_nested_too_deeply_is_refused_as_in_a_job(levels: int, kind: Any) -> None:
    batch: object = 1
    for _ in range(levels):
        batch = {0: batch} if kind == "dict" else kind([batch])
    if levels <= structure.MAX_DEPTH:
        assert same(copy_plain(batch), PlainBatch(delivered(batch)))
        return
    assert copy_plain(batch) is None
    with pytest.raises(DataError, match="nested more than 64 deep"):
        delivered(batch)


class Ragged:
    """Samples that the dataset keeps."""

    def __init__(self) -> None:
        self.kept = [list(range(length)) for length in (3, 0, 5, 1)]

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> list[int]:
        return self.kept[index]


def as_given(samples: list[Any]) -> list[Any]:
    return samples


@pytest.mark.parametrize("arguments", [{}, {"seeding": "worker"}, {"verify": 1.0}], ids=str)
def test_a_script_may_modify_ragged_lists(arguments: dict[str, Any]) -> None:
    dataset = Ragged()
    loader = DataLoader(dataset, **loader_arguments(batch_size=2, collate_fn=as_given, **arguments))
    for _ in range(2):
        found = list(loader)
        assert found == [[[0, 1, 2], []], [[0, 1, 2, 3, 4], [0]]]
        for batch in found:
            for sample in batch:
                sample.append(-1)
    assert dataset.kept == Ragged().kept


def test_an_error_names_its_sample_where_none_is_seeded() -> None:
    class Failing(Ragged):
        def __getitem__(self, index: int) -> list[int]:
            return {0: [1], 1: [2]}[index]

    with pytest.raises(SampleError, match=r"KeyError for sample 2") as raised:
        list(
            DataLoader(
                Failing(),
                batch_size=4,
                collate_fn=as_given,
                options=LoaderOptions(seeding="worker"),
            )
        )
    assert raised.value.index == 2
    assert isinstance(raised.value, KeyError)
