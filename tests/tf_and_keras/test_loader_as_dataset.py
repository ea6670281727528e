"""A loader's batches as a tf.data.Dataset: the same batches, in memory that is not copied."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from launcher.data import DataLoader, LoaderOptions
from launcher.errors import DataError

pytestmark = [
    pytest.mark.library("tensorflow"),
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore:another loader of:UserWarning"
    ),  # they read a stream again, to compare
]


class Samples:
    def __len__(self) -> int:
        return 21

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full((4, 4), index, np.float32), "pair": (index, f"sample {index}")}


def make(**options: Any) -> DataLoader:
    options = {"batch_size": 4, "shuffle": True, "seed": 3, "tensors": False, **options}
    return DataLoader(Samples(), **options)


def numbers(batches: Any) -> list[list[int]]:
    return [np.asarray(batch["x"])[:, 0, 0].astype(int).tolist() for batch in batches]


def expected(epochs: int, **options: Any) -> list[list[list[int]]]:
    loader = make(**options)
    return [numbers(loader) for _ in range(epochs)]


def test_each_iteration_reads_the_next_epoch_exactly() -> None:
    from launcher.data.tf import from_service

    dataset = from_service(make())
    assert int(dataset.cardinality()) == 6
    assert [numbers(dataset) for _ in range(3)] == expected(3)


def test_one_that_is_dropped_is_read_again() -> None:
    from launcher.data.tf import from_service

    dataset = from_service(make(batch_size=1), prefetch=1)
    assert numbers(dataset.take(3)) == expected(1, batch_size=1)[0][:3]
    assert [numbers(dataset) for _ in range(2)] == expected(2, batch_size=1)


@pytest.mark.parametrize("at", [0, 3, 5])
def test_a_resume_point_comes_with_its_batch_whatever_was_read_ahead(at: int) -> None:
    from launcher.data.tf import from_service

    elements = from_service(make(), resume_points=True)
    _, state = next(itertools.islice(elements, at, None))
    loader = make()
    loader.load_state_dict(json.loads(state.numpy()))
    dataset = from_service(loader)
    first, second = expected(2)
    assert numbers(dataset) == (first[at + 1 :] or second)


def test_a_resume_point_at_the_end_of_a_stream_begins_the_next_epoch() -> None:
    """That an epoch of a stream has ended is known only when another batch is asked for."""
    from launcher.data.tf import from_service

    class Stream:
        def __iter__(self) -> Any:
            yield from range(8)

    def stream() -> DataLoader:
        return DataLoader(Stream(), batch_size=4, tensors=False)

    *_, (_, state) = from_service(stream(), resume_points=True)
    loader = stream()
    loader.load_state_dict(json.loads(state.numpy()))
    batches = [batch.numpy().tolist() for batch in from_service(loader)]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_only_steps_make_the_length_of_an_iterable_dataset_certain() -> None:
    import tensorflow as tf

    from launcher.data.tf import from_service

    class Stream:
        def __len__(self) -> int:
            return 24

        def __iter__(self) -> Any:
            yield from range(20)

    spec = tf.TensorSpec((None,), tf.int64)
    estimated = from_service(DataLoader(Stream(), 4, tensors=False), element_spec=spec)
    assert int(estimated.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    assert len(list(estimated)) == 5
    given = from_service(DataLoader(Stream(), 4, tensors=False, options=LoaderOptions(steps=3)))
    assert int(given.cardinality()) == len(list(given)) == 3


def test_its_signature_follows_the_first_batch_or_is_given() -> None:
    import tensorflow as tf

    from launcher.data.tf import from_service

    spec = from_service(make()).element_spec
    assert spec["x"] == tf.TensorSpec((None, 4, 4), tf.float32)
    assert spec["pair"] == (tf.TensorSpec((None,), tf.int64), tf.TensorSpec((None,), tf.string))
    fixed = from_service(make(drop_last=True)).element_spec
    assert fixed["x"].shape.as_list() == [4, 4, 4]
    given = from_service(make(), element_spec=spec)
    assert numbers(given) == expected(1)[0]


def test_drop_last_fixes_only_what_has_the_batch_size() -> None:
    from launcher.data.tf import from_service

    class Growing:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> Any:
            return np.ones(index + 1, np.float32)

    class Broken(Growing):
        def __getitem__(self, index: int) -> Any:
            if index == 4:
                raise ValueError("damaged")
            return np.ones(3, np.float32)

    def pack(samples: list[Any]) -> tuple[Any, Any]:
        return np.concatenate(samples), np.asarray([len(each) for each in samples])

    packed = from_service(DataLoader(Growing(), 2, drop_last=True, collate_fn=pack, tensors=False))
    assert [(len(tokens), len(sizes)) for tokens, sizes in packed] == [(3, 2), (7, 2), (11, 2)]
    assert packed.element_spec[1].shape.as_list() == [2]
    skips = from_service(
        DataLoader(
            Broken(), 3, drop_last=True, tensors=False, options=LoaderOptions(on_error="skip")
        )
    )
    assert [len(batch) for batch in skips] == [3, 2]


def test_texts_keep_zeros_at_their_end() -> None:
    from launcher.data.tf import from_service

    class Texts:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> tuple[bytes, str]:
            return b"x" + b"\0" * index, "ä\0" * index

    batches = from_service(DataLoader(Texts(), batch_size=2, tensors=False))
    found = [text for _, texts in batches for text in texts.numpy()]
    assert found == [("ä\0" * index).encode() for index in range(4)]
    found = [text for texts, _ in batches for text in texts.numpy()]
    assert found == [b"x", b"x\0", b"x\0\0", b"x\0\0\0"]


@pytest.mark.parametrize("part", [np.datetime64("2026-11-27"), np.longdouble(1)], ids=str)
def test_a_batch_that_is_no_tensor_is_refused(part: object) -> None:
    from launcher.data.tf import from_service

    class Samples:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> object:
            return part

    with pytest.raises(DataError, match="which is no tensor"):
        from_service(DataLoader(Samples(), batch_size=2, tensors=False))


def test_a_loader_that_was_read_before_is_refused() -> None:
    from launcher.data.tf import from_service

    loader = make()
    next(iter(loader))
    with pytest.raises(DataError, match="give it to the framework as soon as it is made"):
        from_service(loader)


def test_an_error_of_a_sample_reaches_the_loop(tmp_path: Path) -> None:
    import tensorflow as tf

    from launcher.data.tf import from_service

    class Broken(Samples):
        def __getitem__(self, index: int) -> dict[str, Any]:
            if index == 20:
                raise ValueError("sample 20 is damaged")
            return super().__getitem__(index)

    dataset = from_service(DataLoader(Broken(), batch_size=4, tensors=False))
    with pytest.raises(tf.errors.OpError, match="sample 20 is damaged"):
        numbers(dataset)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TF_CPP_MIN_LOG_LEVEL", "2")
