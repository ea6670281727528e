"""Building datasets from references like "pipeline:train_set", and loading batches from them."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from launcher.data.batches import collate
from launcher.data.order import user_code
from launcher.data.order.batch_plan import BatchPlan
from launcher.data.order.current_shard import CurrentShard, as_current
from launcher.data.order.dataset_arguments import (
    arguments_of,
    follows_epoch,
    resolve_argument,
    without_arguments,
)
from launcher.data.order.original_error_types import with_type_of
from launcher.data.order.set_epoch import FollowsEpochs, are_in_epoch, call_set_epoch
from launcher.data.order.stream_spec import StreamSpec
from launcher.data.order.user_code import error_repr, error_text, latest_traceback
from launcher.data.repeatable import OneThread, run_repeatably, seeding
from launcher.errors import DataError, SampleError

_T = TypeVar("_T")
#: Skipped samples that a report names.
_MAX_NAMED = 8
#: Positions that are tried for a batch whose own samples all raise.
_MOST_IN_PLACE = 1000
#: Seed while a map-style dataset is built, the same for all functions, so that the training and the
#: validation function can draw the same random split and each take one side of it.
_BUILD_SEED = seeding.sample_seed(0, 0, 0, purpose=b"making")


#: A map-style dataset is read as torch's worker 0 of 1, whichever process reads it.
_WHOLE = CurrentShard(0, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenObjects:
    """Objects of this process that it was given in place of references; None for none.

    dataset: an instance. functions: callables, by the field of the stream.
    """

    dataset: Any = None
    functions: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def function(self, spec: StreamSpec, what: str) -> Any:
        """Return a function of a stream: the given one, or the one that its reference names."""
        return self.functions.get(what) or user_code.resolve(getattr(spec, what), what)

    def initialise(self, dataset: object, spec: StreamSpec, shard: CurrentShard, seed: int) -> None:
        """Call the stream's worker_init_fn, if it has one, as torch's worker of that shard."""
        if spec.worker_init_fn is None:
            return
        function = self.function(spec, "worker_init_fn")
        try:
            with as_current(shard, seed=seed, dataset=dataset):
                function(shard.index)
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise DataError(
                f"the worker_init_fn {spec.worker_init_fn} raised {error_repr(error)}; it is "
                f"called with the shard's number, {shard.index}\n{latest_traceback()}"
            ) from error

    def import_code(self, spec: StreamSpec) -> None:
        """Import the dataset's function, before it is seeded."""
        if self.dataset is None:
            import_dataset(spec.dataset)

    @contextlib.contextmanager
    def restored_on_error(self, spec: StreamSpec) -> Iterator[None]:
        """Restore the attributes of an instance that is read itself if loading its state fails.

        Raises what copying them raises.
        """
        is_read_itself = self.dataset is not None and spec.shards == 1
        attributes = vars(self.dataset) if is_read_itself else {}
        before = copy.deepcopy(attributes)
        try:
            yield
        except BaseException:
            if is_read_itself:
                attributes.clear()
                attributes.update(before)
                seeding.keep_generators_of(self.dataset)
            raise

    def build(self, spec: StreamSpec, epoch: int) -> Any:
        """Return the dataset for one shard: a copy of the instance if there are more."""
        if self.dataset is None:
            return build_dataset(spec.dataset, epoch)
        if spec.shards == 1:
            return self.dataset
        try:
            return copy.deepcopy(self.dataset)
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise DataError(
                f"{spec.dataset} cannot be copied for each of its shards={spec.shards}: "
                f"{error_repr(error)}; give the loader its class and dataset_args instead\n"
                f"{latest_traceback()}"
            ) from error


NO_OBJECTS = GivenObjects()


class Datasets(dict[str, Any]):
    """Datasets by reference, each built on first use.

    Random numbers drawn while one is built are the same in every process; the process's own random
    states are unchanged.

    one_thread: entered while one is built or prepared; None where libraries have one anyway.
    """

    def __init__(
        self, given: GivenObjects = NO_OBJECTS, one_thread: OneThread | None = None
    ) -> None:
        super().__init__()
        self.given = given
        self._one_thread = one_thread or contextlib.nullcontext()
        self._initialised: dict[tuple[str, object], Any] = {}  # for which dataset
        #: Of a given dataset, when its generators were kept.
        self._attributes: list[int] | None = None
        #: The latest dataset, its epoch, and what was told that.
        self._told: dict[str, tuple[Any, int, list[FollowsEpochs]]] = {}

    def ready(self, spec: StreamSpec, epoch: int) -> Any:
        """Return a stream's dataset for samples of an epoch.

        Its worker_init_fn has been called, once, and it has been told the epoch, again if another
        stream has told it another one since.
        """
        dataset = self.of_epoch(spec.dataset, epoch)
        function = self.given.functions.get("worker_init_fn", spec.worker_init_fn)
        key = (spec.dataset, function)
        if spec.worker_init_fn and self._initialised.get(key) is not dataset:
            self._run(lambda: self.given.initialise(dataset, spec, CurrentShard(0, 1), _BUILD_SEED))
            self._initialised[key] = dataset
        told, in_epoch, followers = self._told.get(spec.dataset, (None, -1, []))
        if in_epoch != epoch and self.given.dataset is not None:
            self._keep_what_was_assigned(dataset)
        if told is not dataset or in_epoch != epoch or not are_in_epoch(followers, epoch):
            followers = self._run(lambda: call_set_epoch(dataset, epoch))
            self._told[spec.dataset] = dataset, epoch, followers
        return dataset

    def are_told(self, reference: str) -> bool:
        """Return whether what is read has been told its epoch, and may be told another one."""
        return bool(self._told[reference][2])

    def _run(self, call: Callable[[], _T]) -> _T:
        return run_repeatably(call, _BUILD_SEED, one_thread=self._one_thread)

    def _keep_what_was_assigned(self, dataset: object) -> None:
        """Keep the generators of an object whose attributes the script has changed since."""
        attributes = [id(each) for layer in _layers(dataset) for each in layer.values()]
        if attributes != self._attributes:
            self._attributes = attributes
            seeding.keep_generators_of(dataset)

    def of_epoch(self, reference: str, epoch: int) -> Any:
        """Return the dataset for samples of an epoch, which has not been told the epoch yet."""
        if not follows_epoch(reference):
            return self[reference]
        name = f"{reference} in epoch {epoch}"
        if name not in self:
            self.pop(f"{reference} in epoch {epoch - 2}", None)  # the one before may be read still
            self[name] = self._built(reference, epoch)
        return self[name]

    def __missing__(self, reference: str) -> Any:
        if follows_epoch(reference):
            return self.of_epoch(reference, 0)
        self[reference] = self._built(reference, epoch=0)
        return self[reference]

    def _built(self, reference: str, epoch: int) -> object:
        if self.given.dataset is not None:
            self._keep_what_was_assigned(self.given.dataset)
            return self.given.dataset
        self._run(lambda: import_dataset(reference))
        dataset = self._run(lambda: build_dataset(reference, epoch))
        seeding.keep_generators_of(dataset)
        return dataset


def _layers(dataset: object) -> Iterator[dict[str, object]]:
    """Yield the attributes of a dataset, and of those that it wraps as torch's Subset does."""
    seen: list[object] = []
    while dataset is not None and not any(dataset is each for each in seen):
        seen.append(dataset)
        yield getattr(dataset, "__dict__", {})
        dataset = getattr(dataset, "dataset", None)


def import_dataset(reference: str) -> None:
    """Import the function of a dataset; its modules' generators are seeded from then on.

    Call it before the seed that the function gets, so that each call of it draws the same.
    """
    seeding.keep_generators_of_module(_function(reference))


def build_dataset(reference: str, epoch: int = 0) -> Any:
    """Call the function that a reference names, with its arguments, and check what it returns.

    epoch: for which it is built, if the arguments hold it.

    The caller checks that the job serves the reference. Raises DataError with the traceback when
    the user's code raises.
    """
    function, given = _function(reference), arguments_of(reference)
    _check_arguments(reference, function, given)
    seeds_system = seeding.seed_system_entropy(function)
    try:
        dataset = function(**{name: resolve_argument(each, epoch) for name, each in given.items()})
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise DataError(
            f"the dataset {reference} could not be built: {error_repr(error)}\n{latest_traceback()}"
        ) from error
    check_dataset(dataset, f"{reference} returned")
    if seeds_system and not seeding.seed_system_entropy(dataset):
        dataset.seed_system_entropy = True  # as its function asks for it
    return dataset


def check_dataset(dataset: object, which: str) -> None:
    """Raise DataError for an object that is not a dataset, or one that would hang."""
    _check_no_barrier(dataset, which)
    missing = [name for name in ("__getitem__", "__len__") if not hasattr(dataset, name)]
    if missing and not is_iterable(dataset):
        lacks = f", which has no {missing[0]}" if len(missing) == 1 else ""
        raise DataError(
            f"{which} a {type(dataset).__name__}{lacks}; a dataset has __getitem__ and "
            "__len__, or, if it can only be read from its start, __iter__: return or define one"
        )


def _check_no_barrier(dataset: object, which: str) -> None:
    """Raise DataError for an iterator that would wait for workers which are on other hosts."""
    kinds = (f"{kind.__module__}.{kind.__name__}" for kind in type(dataset).__mro__)
    if "streaming.base.dataset.StreamingDataset" in kinds:
        raise DataError(
            f"{which} a StreamingDataset of mosaicml-streaming, whose iterator waits at barriers "
            "for the workers of one machine; data workers are processes of several hosts: return "
            "an object with a __len__ and a __getitem__ that reads it by index (docs/datasets.md)"
        )


def _function(reference: str) -> Any:
    return user_code.resolve(without_arguments(reference), "dataset")


def _check_arguments(
    reference: str, function: Callable[..., object], given: Mapping[str, object]
) -> None:
    """Raise DataError for arguments that the function does not take."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions of C modules have none
        return
    try:
        signature.bind(**given)
    except TypeError as error:
        raise DataError(
            f"the dataset {reference} could not be built: {error}; it is called as "
            f"{without_arguments(reference)}{signature}: give the loader "
            'dataset_args={"NAME": VALUE, ...} that fit'
        ) from error


def is_iterable(dataset: object) -> bool:
    """Return whether a dataset can only be read from its start, like torch's IterableDataset."""
    torch_data = sys.modules.get("torch.utils.data")
    if torch_data and isinstance(dataset, torch_data.IterableDataset):
        return True  # it inherits a __getitem__ that raises
    return hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")


@dataclass(frozen=True, kw_only=True)
class Description:
    """Length and kind of a dataset. length: None if iterable without `__len__`."""

    length: int | None
    iterable: bool = False


def describe(dataset: Any) -> Description:
    """Describe a dataset; raises what its `__len__` raises."""
    if not is_iterable(dataset):
        return Description(length=len(dataset))
    try:
        return Description(length=len(dataset), iterable=True)
    except (TypeError, NotImplementedError):  # torch raises these for an unknown length
        return Description(length=None, iterable=True)


@dataclass
class Skipped:
    """The samples that were left out of batches because they raised."""

    count: int = 0
    #: Samples that were read in their place, because nothing else was left of a batch.
    repeated: int = 0
    indices: list[int | None] = field(default_factory=list)  # of the first few
    remote_traceback: str = ""  # of the first

    def add(self, other: Skipped) -> None:
        """Add the samples of another batch."""
        self.count += other.count
        self.repeated += other.repeated
        self.indices = (self.indices + other.indices)[:_MAX_NAMED]
        self.remote_traceback = self.remote_traceback or other.remote_traceback


def load_batch(
    dataset: object, plan: BatchPlan, step: int, given: GivenObjects = NO_OBJECTS
) -> Any:
    """Load the batch of a step; its bytes are the same wherever and whenever it is loaded.

    With on_error="skip", returns a pair of the batch, None if nothing is left of it, and the fields
    of a `Skipped` as a dict. Sets the process's random states. Raises SampleError when the dataset
    raises.
    """
    with as_current(_WHOLE, seed=_BUILD_SEED, dataset=dataset):
        return _load_batch(dataset, plan, step, given)


def _load_batch(dataset: object, plan: BatchPlan, step: int, given: GivenObjects) -> Any:
    seeding.seed_system_entropy(dataset)
    loaded, skipped = _load_samples(dataset, plan, step)
    position = plan.positions(step)[0] if plan.spec.collate_fn else 0
    if skipped is not None and not loaded:
        return None, vars(skipped)
    batch = make_batch(
        loaded, plan.spec, plan.epoch, position, lambda: plan.describe_batch(step), given
    )
    return batch if skipped is None else (batch, vars(skipped))


# Loading -----------------------------------------------------------------------------------


def _load_samples(
    dataset: object, plan: BatchPlan, step: int
) -> tuple[Sequence[Any], Skipped | None]:
    if plan.spec.on_error == "skip":
        return _load_skipping_errors(dataset, plan, step)
    if plan.spec.collates and _reads_batches(dataset):
        return _load_with_getitems(dataset, plan, step), None
    load = _seeded_calls(functools.partial(operator.getitem, dataset), plan.spec, plan.epoch)
    loaded: list[Any] = []
    samples = plan.samples(step)
    try:
        for position, index in samples:
            loaded.append(load(index, position))
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise _error_of_sample(error, plan, samples[len(loaded)][1]) from error
    return loaded, None


def _reads_batches(dataset: Any) -> bool:
    """Return whether a dataset has its own `__getitems__`, which torch's fetcher prefers as well.

    torch's Subset and StackDataset always have one, and forward it to the datasets they wrap.
    """
    if torch_data := sys.modules.get("torch.utils.data"):
        if type(dataset) is torch_data.Subset:
            return _reads_batches(dataset.dataset)
        if type(dataset) is torch_data.StackDataset:
            parts = dataset.datasets
            return any(map(_reads_batches, parts.values() if isinstance(parts, dict) else parts))
    return callable(getattr(dataset, "__getitems__", None))


def _load_skipping_errors(dataset: object, plan: BatchPlan, step: int) -> tuple[list[Any], Skipped]:
    """Load the samples that do not raise.

    If all of them raise, one rank alone has no such batch. Several ranks take the same steps, so
    there it consists of the next positions of the epoch whose samples do not raise; raises
    SampleError when there are none.
    """
    loaded: list[Any] = []
    skipped = Skipped()
    load = _seeded_calls(functools.partial(operator.getitem, dataset), plan.spec, plan.epoch)

    def add(samples: Sequence[tuple[int, int]]) -> None:
        for position, index in samples:
            try:
                loaded.append(load(index, position))
            except (Exception, SystemExit) as raised:  # noqa: BLE001, PERF203 - the user's code
                error = _error_of_sample(raised, plan, index)
                skipped.add(
                    Skipped(count=1, indices=[error.index], remote_traceback=error.remote_traceback)
                )

    add(plan.samples(step))
    if loaded or plan.world == 1:
        return loaded, skipped
    count, following = skipped.count, plan.positions(step)[-1] + 1
    for position in range(following, following + min(plan.length, _MOST_IN_PLACE)):
        add(plan.samples_at([position % plan.length]))
        if loaded:
            skipped.count, skipped.repeated = count, len(loaded)
            return loaded, skipped
    raise SampleError(
        f"all {count} samples of a batch of {plan.spec.dataset} raised ({plan.describe_batch(step)}"
        "), and so did those that follow it in the epoch",
        index=skipped.indices[0],
        remote_traceback=skipped.remote_traceback,
    )


def _load_with_getitems(dataset: Any, plan: BatchPlan, step: int) -> Sequence[Any]:
    samples = plan.samples(step)
    try:
        # One call loads them all, so the seed of the first sample applies to all of them.
        load = _seeded_calls(dataset.__getitems__, plan.spec, plan.epoch)
        loaded = load([index for _, index in samples], samples[0][0])
        given = len(loaded)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        where = f"the batch of {plan.describe_batch(step)}"
        raise _sample_error(
            error, f"__getitems__ of {plan.spec.dataset} raised", where, None
        ) from error
    if given != len(samples):
        raise DataError(
            f"__getitems__ of {plan.spec.dataset} returned {given} samples for {len(samples)} "
            "indices: it must return one for each"
        )
    return list(loaded)


def _seeded_calls(
    call: Callable[[Any], Any], spec: StreamSpec, epoch: int, purpose: bytes = b""
) -> Callable[[Any, int], Any]:
    """Return `call` as a function of its argument and of the position whose random states it has.

    With seeding="worker", the random numbers are the process's.
    """
    if spec.seeding == "worker":
        return lambda given, _position: call(given)
    return seeding.SeededCalls(call, spec.seed, epoch, purpose)


def _error_of_sample(error: BaseException, plan: BatchPlan, index: int) -> SampleError:
    length = plan.dataset_length or plan.length
    return _sample_error(error, f"{plan.spec.dataset} raised", f"sample {index}", index, length)


def _sample_error(
    error: BaseException, who: str, what: str, index: int | None, length: int = 0
) -> SampleError:
    too_long = f"; len(dataset) is {length}: let __len__ return the number of samples that it has"
    fix = too_long if isinstance(error, IndexError) and length else ""
    sample_error = SampleError(
        f"{who} {type(error).__name__} for {what}: {error_text(error)}{fix}",
        index=index,
        remote_traceback=latest_traceback(),
    )
    return with_type_of(sample_error, error)


# Collating ---------------------------------------------------------------------------------


def make_batch(
    loaded: Sequence[object],
    spec: StreamSpec,
    epoch: int,
    position: int,
    describe_batch: Callable[[], str],
    given: GivenObjects = NO_OBJECTS,
) -> Any:
    """Collate samples with the user's function, by torch's rules, or not at all.

    position: seeds the random numbers of the user's function, with seed and epoch (mixing samples
    draws some). describe_batch: describes the samples for a message.

    Raises DataError when the function raises or the samples cannot be collated.
    """
    if spec.collate_fn is not None:
        function = given.function(spec, "collate_fn")
        batch = loaded if spec.collates else loaded[0]

        def call(batch: Any) -> Any:
            return _called(function, batch, str(spec.collate_fn), describe_batch)

        return _seeded_calls(call, spec, epoch, b"collate")(batch, position)
    if not spec.collates:
        return loaded[0]
    try:
        return collate(loaded)
    except Exception as error:  # mismatched samples fail in many ways
        raise _uncollated(loaded, error, spec.dataset, describe_batch()) from error


def _uncollated(loaded: Sequence[object], error: Exception, dataset: str, batch: str) -> DataError:
    """Return the error for samples that cannot be collated."""
    nones = [place for place, sample in enumerate(loaded, 1) if sample is None]
    if nones and len(nones) < len(loaded):
        return DataError(
            f"{dataset}: number {nones[0]} of the {len(loaded)} samples of a batch is None: let "
            "the dataset return a value for each, since a branch of it may lack its return, or "
            f"give the loader a collate_fn that leaves None out ({batch})"
        )
    if isinstance(error, DataError):
        return DataError(f"{dataset}: {error} ({batch})")
    return DataError(
        f"{dataset}: samples that do not make a batch: {error_repr(error)}; make them alike in the "
        f"dataset, or give the loader a collate_fn ({batch})\n{latest_traceback()}"
    )


def _called(
    function: Callable[[Any], Any], given: object, reference: str, describe_batch: Callable[[], str]
) -> Any:
    try:
        return function(given)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        refused = DataError(
            f"the collate_fn {reference} raised {error_repr(error)} ({describe_batch()}); it is "
            f"called with a {'list of samples' if isinstance(given, list) else 'sample'} alone\n"
            f"{latest_traceback()}"
        )
        raise with_type_of(refused, error) from error
