"""What a script that was written for torch's DataLoader relies on."""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from launcher.data import DataLoader, LoaderOptions, shard
from launcher.data.batches import class_names
from launcher.data.order import type_names, with_original_type
from launcher.errors import DataError, SampleError

Numbers = list[int]


class Failing:
    """Raises an error for its second sample."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 1:
            raise self.error
        return index


class Broken(ValueError):
    def __init__(self, path: str, code: int) -> None:
        super().__init__(f"{path} is broken")
        self.code = code


def undecodable() -> UnicodeDecodeError:
    return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


# Errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        KeyError("label"),
        IndexError(3),
        FileNotFoundError(2, "No such file", "a.png"),
        Broken("a.png", 3),
        undecodable(),
        AssertionError(),
        TimeoutError("slow"),
        pickle.UnpicklingError("invalid load key"),
        json.JSONDecodeError("Expecting value", "{", 1),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("workers", [0, 1], ids=["in process", "by a fork"])
def test_an_error_of_the_dataset_keeps_its_type_and_names_its_sample(
    error: Exception, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In process any class; a fork sends the name, which selects among those that are known."""
    monkeypatch.setattr(class_names, "is_own", lambda home: home.__name__ == __name__)
    built_in = next(k for k in type(error).__mro__ if k.__module__ == "builtins")
    known = built_in if workers and type(error) is not Broken else type(error)
    with pytest.raises(known) as caught:
        list(DataLoader(Failing(error), workers=workers))
    assert isinstance(caught.value, SampleError)
    assert caught.value.index == 1
    assert f"raised {type(error).__name__} for sample 1" in str(caught.value)
    assert "Traceback" in caught.value.remote_traceback


def test_an_error_of_this_process_has_the_attributes_of_its_class() -> None:
    with pytest.raises(Broken) as broken:
        list(DataLoader(Failing(Broken("a.png", 3))))
    assert broken.value.code == 3
    with pytest.raises(json.JSONDecodeError) as undecoded:
        list(DataLoader(Failing(json.JSONDecodeError("Expecting value", "{", 1))))
    assert (undecoded.value.pos, undecoded.value.lineno) == (1, 1)
    assert "for sample 1: Expecting value" in str(undecoded.value)


@pytest.mark.parametrize("error", [StopIteration(), SystemExit(3)], ids=repr)
def test_an_error_that_would_end_a_loop_or_the_script_is_an_error_of_the_sample_alone(
    error: BaseException,
) -> None:
    with pytest.raises(SampleError) as caught:
        list(DataLoader(Failing(error)))
    assert type(caught.value) is SampleError


def test_a_collate_fn_and_an_iterable_dataset_keep_the_type_of_their_errors() -> None:
    def collate(samples: Numbers) -> Numbers:
        raise LookupError(len(samples))

    with pytest.raises(LookupError) as caught:
        list(DataLoader([1, 2], collate_fn=collate))
    assert isinstance(caught.value, DataError)

    class Stream:
        def __iter__(self) -> Iterator[int]:
            yield 1
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="in shard 0 of 1, after 1 samples"):
        list(DataLoader(Stream()))


def test_an_error_that_arrives_by_name_is_of_the_first_class_that_is_known() -> None:
    def arrived(*names: str) -> SampleError:
        return with_original_type(SampleError("m", index=1, remote_traceback="t"), names)

    assert isinstance(arrived("PIL:UnidentifiedImageError", "builtins:OSError"), OSError)
    assert arrived("x:Y", "builtins:KeyError", "builtins:LookupError").type_names[0] == "x:Y"
    for names in [
        ("os:error", "builtins:int", "builtins:exec", "builtins:SystemExit", "builtins:print"),
        ("builtins:StopIteration", "builtins:KeyboardInterrupt", "subprocess:TimeoutExpired"),
        ("", ":", "builtins", "builtins:", "builtins:__import__", "launcher.errors:WireError"),
        ("builtins:ExceptionGroup",),
    ]:
        assert type(arrived(*names)) is SampleError, names
    error = arrived("builtins:KeyError")
    assert (str(error), error.index, error.remote_traceback) == ("m\nt", 1, "t")


def test_the_names_of_an_error_begin_with_its_own_class() -> None:
    assert type_names(Broken("a", 1))[1:] == ("builtins:ValueError",)
    assert type_names(SampleError("m", index=1, remote_traceback="")) == ()


class AtOnce:
    """Reads a list of indices in one call, as a table does."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, ids: Numbers) -> dict[str, Any]:
        return {"x": np.array(ids) * 10}


def test_a_dataset_that_reads_lists_of_indices_is_read_by_a_collate_fn() -> None:
    torch = pytest.importorskip("torch")
    sampler = torch.utils.data.BatchSampler(range(10), 4, drop_last=False)
    dataset = AtOnce()
    theirs = torch.utils.data.DataLoader(dataset, batch_size=None, sampler=sampler)
    with pytest.raises(
        DataError, match=r"batch_sampler=\.\.\., collate_fn=lambda ids: DATASET\[ids\]"
    ):
        list(DataLoader(dataset, batch_size=None, sampler=sampler))
    ours = DataLoader(
        range(len(dataset)),
        batch_sampler=sampler,
        collate_fn=lambda ids: dataset[ids],
        tensors=True,
    )
    assert [batch["x"].tolist() for batch in ours] == [batch["x"].tolist() for batch in theirs]


# Arguments and attributes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"sampler": [3, 1, 1]}, [[3, 1], [1]]),
        ({"sampler": range(3, 0, -1)}, [[3, 2], [1]]),
        ({"sampler": np.array([2, 0])}, [[2, 0]]),
        ({"sampler": (0,)}, [[0]]),
        ({"sampler": []}, []),
        ({"batch_size": 1, "batch_sampler": [[3], [0, 1, 2]]}, [[3], [0, 1, 2]]),
        ({"batch_size": 1, "batch_sampler": np.array([[3, 0], [1, 2]])}, [[3, 0], [1, 2]]),
    ],
    ids=str,
)
def test_a_sampler_may_be_a_list_of_ids(arguments: dict[str, Any], expected: Any) -> None:
    loader = DataLoader(
        list(range(4)),
        **{"batch_size": 2, "tensors": False, **arguments},
        options=LoaderOptions(allow_empty=True),
    )
    for _ in range(2):
        assert [batch.tolist() for batch in loader] == expected
    assert len(loader) == len(expected)


def test_the_state_of_a_list_of_ids_is_of_those_ids() -> None:
    loader = DataLoader(list(range(4)), sampler=[3, 1, 2])
    next(iter(loader))
    state = loader.state_dict()
    again = DataLoader(list(range(4)), sampler=[3, 1, 2], tensors=False)
    again.load_state_dict(state)
    assert [batch.tolist() for batch in again] == [[1], [2]]
    with pytest.raises(DataError):
        DataLoader(list(range(4)), sampler=[3, 2, 1]).load_state_dict(state)


@pytest.mark.parametrize("ids", [[4], [-1], ["a"], [[1]], [0.5]], ids=str)
def test_ids_that_the_dataset_has_not_are_refused(ids: Any) -> None:
    with pytest.raises(DataError, match=r"the sample id|where sample ids are expected"):
        list(DataLoader(list(range(4)), sampler=ids))


def test_numbers_may_be_numpys() -> None:
    loader = DataLoader(list(range(8)), batch_size=np.int64(4))  # type: ignore[arg-type] # as scripts have it
    assert (len(loader), loader.batch_size, type(loader.batch_size)) == (2, 4, int)

    class Stream:
        def __iter__(self) -> Iterator[int]:
            index, count = shard()
            return iter(range(index, 8, count))

    options = LoaderOptions(steps=np.int64(3))  # type: ignore[arg-type]
    numbers: Any = {"shards": np.int64(2), "options": options}
    assert [int(batch[0]) for batch in DataLoader(Stream(), **numbers)] == [0, 1, 2]


def test_an_iterable_dataset_may_be_read_in_any_order_and_keeps_its_own() -> None:
    class Stream:
        def __iter__(self) -> Iterator[int]:
            return iter(range(5))

    loader = DataLoader(Stream(), batch_size=2, in_order=False, tensors=False)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]


def test_the_loader_is_generic() -> None:
    loader: DataLoader[Numbers] = DataLoader([1, 2], collate_fn=list)
    assert next(iter(loader)) == [1]
    assert DataLoader[Numbers] is not DataLoader


# get_worker_info -------------------------------------------------------------------------------


def worker_info() -> tuple[Any, ...]:
    torch_data = pytest.importorskip("torch.utils.data")
    info = torch_data.get_worker_info()
    return None if info is None else (info.id, info.num_workers, info.seed, type(info.dataset))


class Asking:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return worker_info()


class AskingStream:
    def __iter__(self) -> Iterator[Any]:
        yield worker_info()


@pytest.mark.long
@pytest.mark.parametrize("dataset", [Asking, AskingStream])
def test_worker_info_is_there_while_a_dataset_is_read_and_not_after(
    dataset: Callable[[], Any],
) -> None:
    pytest.importorskip("torch")
    read = functools.partial(DataLoader, collate_fn=lambda samples: [s[:3] for s in samples])
    for seed in range(40):
        ((worker, count, own_seed),) = next(iter(read(dataset(), seed=seed)))
        assert (worker, count) == (0, 1)
        assert 0 <= own_seed < 1 << 63
        assert worker_info() is None
