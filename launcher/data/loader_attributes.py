"""The attributes of torch's DataLoader: read as there, and honoured or refused when assigned."""

from __future__ import annotations

import functools
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from launcher.data.batches import collate
from launcher.data.loader_options import OPTION_NAMES
from launcher.data.order import GivenObjects, StreamSpec
from launcher.data.torch_arguments import TorchArguments
from launcher.data.torch_samplers import TorchSampler
from launcher.errors import DataError

#: Arguments that may be assigned to a loader, for the epochs that begin from then on.
_ASSIGNABLE = frozenset(
    (
        "collate_fn",
        "generator",
        "in_order",
        "multiprocessing_context",
        "num_workers",
        "pin_memory",
        "pin_memory_device",
        "prefetch_factor",
        "timeout",
        "worker_init_fn",
    )
)


class LoaderAttributes(ABC):
    """Attributes of torch's DataLoader that scripts and frameworks use, for a loader to inherit."""

    _spec: StreamSpec
    _given: GivenObjects
    _as_torch: TorchArguments
    _sampler: TorchSampler
    _pins: bool

    def __setattr__(self, name: str, value: object) -> None:
        """Honour what torch's loader honours, and refuse arguments that come too late.

        As there, any other attribute is the script's own.
        """
        if name in _ASSIGNABLE:
            self._assign(name, value)
        elif name in _arguments(type(self)) | OPTION_NAMES or isinstance(
            getattr(type(self), name, None), property
        ):
            raise DataError(
                f"{name} is assigned to the loader of {self._spec.name}, which has been made "
                f"already: give it where the loader is made, {_where_given(name)}, and let "
                "a new loader continue by load_state_dict(old.state_dict())"
            )
        else:
            super().__setattr__(name, value)

    @property
    def batch_size(self) -> int | None:
        """Samples per rank and step; None for samples one by one, or with a batch_sampler."""
        return None if self._spec.batch_sampler else self._spec.batch_size

    @property
    def collate_fn(self) -> Callable[[Any], Any]:
        """The function that makes a batch of samples: the one given, or torch's default."""
        if self._spec.collate_fn is not None:
            return self._given.function(self._spec, "collate_fn")  # type: ignore[no-any-return] # the user's
        if (torch_data := sys.modules.get("torch.utils.data")) is None:
            return collate if self._spec.collates else _same
        name = "default_collate" if self._spec.collates else "default_convert"
        return getattr(torch_data, name)  # type: ignore[no-any-return] # torch's

    @property
    def worker_init_fn(self) -> Callable[[int], object] | None:
        """The function that was given."""
        if self._spec.worker_init_fn is None:
            return None
        return self._given.function(self._spec, "worker_init_fn")  # type: ignore[no-any-return] # the user's

    @property
    def generator(self) -> Any:
        """The torch.Generator that was given, whose seed is the order's."""
        return self._as_torch.generator

    @property
    def in_order(self) -> bool:
        """False if batches are returned as they become ready."""
        return self._spec.in_order

    @property
    def pin_memory(self) -> bool:
        """True if batches are asked for in page-locked memory."""
        return self._pins

    @property
    def pin_memory_device(self) -> str:
        """The hint that was given."""
        return self._as_torch.pin_memory_device

    @property
    def multiprocessing_context(self) -> None:
        """None: data workers are processes of the job."""
        return

    @property
    def num_workers(self) -> int:
        """The hint that was given."""
        return self._as_torch.num_workers

    @property
    def prefetch_factor(self) -> int | None:
        """The hint that was given."""
        return self._as_torch.prefetch_factor

    @property
    def persistent_workers(self) -> bool:
        """The hint that was given."""
        return self._as_torch.persistent_workers

    @property
    def timeout(self) -> float:
        """Seconds to wait for a batch of the data hosts; 0 for as long as the service exists."""
        return self._as_torch.timeout

    @property
    def drop_last(self) -> bool:
        """True if an incomplete last step is dropped."""
        return self._spec.drop_last

    @property
    def dataset(self) -> Any:
        """The dataset that was given as an object, else one that has its length alone."""
        given = self._given.dataset
        return self._served_dataset if given is None else given

    @property
    def _served_dataset(self) -> ServedDataset:
        return ServedDataset(self._spec.dataset, self._dataset_length)

    @property
    def sampler(self) -> Any:
        """The sampler that was given as an object, else the order, whose epoch can be set."""
        if self._sampler.given is not None and self._sampler.what == "sampler":
            return self._sampler.given
        return EpochSampler(self._served_dataset, self._follow_epoch)

    @property
    def batch_sampler(self) -> Any:
        """The batch sampler that was given as an object, else the steps of this rank.

        None for samples one by one, as in torch.
        """
        if self._sampler.given is not None and self._sampler.what == "batch_sampler":
            return self._sampler.given
        if not self._spec.collates:
            return None
        return StepSampler(self.sampler, self._spec, self.__len__)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _dataset_length(self) -> int: ...

    @abstractmethod
    def _follow_epoch(self, epoch: int) -> None: ...

    @abstractmethod
    def _assign(self, name: str, value: object) -> None: ...


@functools.cache
def _arguments(kind: type) -> frozenset[str]:
    """Return the names of the arguments of a loader's class and of those it is derived from."""
    constructors = (vars(each).get("__init__") for each in kind.__mro__ if each is not object)
    return frozenset(
        name for each in filter(None, constructors) for name in inspect.signature(each).parameters
    )


def _where_given(name: str) -> str:
    if name in OPTION_NAMES:
        return f"DataLoader(..., options=LoaderOptions({name}=...))"
    return f"DataLoader(..., {name}=...)"


def _same(sample: object) -> object:
    return sample


class _StandIn(ABC):
    """Stands for a part of a loader that is elsewhere, so that its attributes cannot be set.

    Without a `__dict__`, they cannot be set past `__setattr__` either.
    """

    __slots__: tuple[str, ...] = ("__weakref__",)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self.__slots__:
            raise DataError(self._refusal(name, value))
        super().__setattr__(name, value)

    @abstractmethod
    def _refusal(self, name: str, value: object) -> str: ...


class ServedDataset(_StandIn):
    """The length of a loader's dataset; its samples are read through the loader alone."""

    __slots__ = ("_length", "_name")

    def __init__(self, name: str, length: Callable[[], int]) -> None:
        self._name = name
        self._length = length

    @property
    def name(self) -> str:
        """The reference to the dataset."""
        return self._name

    def __len__(self) -> int:
        """Return the dataset's `len()`; raises TypeError when it has none."""
        return self._length()

    def __getitem__(self, index: object) -> NoReturn:
        raise DataError(
            f"{self._name} is read by launcher.data.DataLoader alone, because its samples are "
            "prepared on other hosts: give the framework the loader, not its dataset"
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"loader.dataset has no {name}: {self._name} is built where its samples are prepared, "
            "and only its length is known here; make one in the script to look at it"
        )

    def _refusal(self, name: str, value: object) -> str:
        return (
            f"loader.dataset.{name} = {value!r:.80} would change nothing: {self._name} is built "
            f'where its samples are prepared; give it as an argument, dataset_args={{"{name}": '
            "...}, which may hold EPOCH, from which a set_epoch of the dataset may follow as well"
        )


class EpochSampler(_StandIn):
    """A loader's order of samples, of which frameworks set the epoch."""

    __slots__ = ("_dataset", "_follow_epoch")

    def __init__(self, dataset: ServedDataset, follow_epoch: Callable[[int], None]) -> None:
        self._dataset = dataset
        self._follow_epoch = follow_epoch

    def __len__(self) -> int:
        """Return the dataset's `len()`; raises TypeError when it has none."""
        return len(self._dataset)

    def __iter__(self) -> Iterator[int]:
        _refuse_indices(self._dataset.name)

    def set_epoch(self, epoch: int) -> None:
        """Make the next `for` read this epoch; the current `for` continues, as torch's does.

        An iterator that has not returned a batch yet reads this epoch, too.
        """
        self._follow_epoch(epoch)

    def _refusal(self, name: str, value: object) -> str:
        return (
            f"loader.sampler.{name} = {value!r:.80} would change nothing: the order of "
            f"{self._dataset.name} is the loader's own; make the loader with a sampler to have "
            "another one"
        )


class StepSampler(_StandIn):
    """The steps of a loader, which are counted but not given as indices."""

    __slots__ = ("_length", "_sampler", "_spec")

    def __init__(self, sampler: Any, spec: StreamSpec, length: Callable[[], int]) -> None:
        self._sampler, self._spec, self._length = sampler, spec, length

    @property
    def sampler(self) -> Any:
        """The loader's."""
        return self._sampler

    @property
    def batch_size(self) -> int | None:
        """The loader's."""
        return self._spec.batch_size

    @property
    def drop_last(self) -> bool:
        """The loader's."""
        return self._spec.drop_last

    def __len__(self) -> int:
        """Return the steps of this rank; raises TypeError when unknown."""
        return self._length()

    def __iter__(self) -> Iterator[list[int]]:
        _refuse_indices(self._spec.dataset)

    def _refusal(self, name: str, value: object) -> str:
        return (
            f"loader.batch_sampler.{name} = {value!r:.80} would change nothing: the steps of "
            f"{self._spec.name} are the loader's own; make the loader with another {name}"
        )


def _refuse_indices(dataset: str) -> NoReturn:
    """Raise for a framework that would build a loader of its own from this one's indices."""
    raise DataError(
        f"the loader of {dataset} cannot be rebuilt to skip batches: save its state_dict() "
        "with the checkpoint and give it to load_state_dict(), which skips what was read (with "
        "Hugging Face's Trainer, set ignore_data_skip=True)"
    )
