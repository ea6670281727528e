"""The attributes that training frameworks read from a torch DataLoader: sampler, dataset, ..."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from launcher.data.order.samples import GivenObjects
from launcher.data.order.stream_spec import StreamSpec
from launcher.data.torch_arguments import TorchArguments
from launcher.errors import DataError


class LoaderAttributes(ABC):
    """Attributes of torch's DataLoader that frameworks read, for a loader to inherit."""

    _spec: StreamSpec
    _given: GivenObjects
    _as_torch: TorchArguments

    @property
    def batch_size(self) -> int | None:
        """Samples per rank and step; None for samples one by one, or with a batch_sampler."""
        return None if self._spec.batch_sampler else self._spec.batch_size

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
    def sampler(self) -> EpochSampler:
        """The order's `set_epoch`, which frameworks call before each epoch."""
        return EpochSampler(self._served_dataset, self._follow_epoch)

    @property
    def batch_sampler(self) -> StepSampler:
        """The steps of this rank."""
        return StepSampler(self.sampler, self.__len__)

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _dataset_length(self) -> int: ...

    @abstractmethod
    def _follow_epoch(self, epoch: int) -> None: ...


class ServedDataset:
    """The length of a loader's dataset; its samples are read through the loader alone."""

    def __init__(self, name: str, length: Callable[[], int]) -> None:
        self.name = name
        self._length = length

    def __len__(self) -> int:
        """Return the dataset's `len()`; raises TypeError when it has none."""
        return self._length()

    def __getitem__(self, index: object) -> NoReturn:
        raise DataError(
            f"{self.name} is read by launcher.data.DataLoader alone, because its samples are "
            "prepared on other hosts: give the framework the loader, not its dataset"
        )


class EpochSampler:
    """A loader's order of samples, of which frameworks set the epoch."""

    def __init__(self, dataset: ServedDataset, follow_epoch: Callable[[int], None]) -> None:
        self.dataset = dataset
        self._follow_epoch = follow_epoch

    def __len__(self) -> int:
        """Return the dataset's `len()`; raises TypeError when it has none."""
        return len(self.dataset)

    def __iter__(self) -> Iterator[int]:
        _refuse_indices(self.dataset)

    def set_epoch(self, epoch: int) -> None:
        """Make the next `for` read this epoch; the current `for` continues, as torch's does.

        An iterator that has not returned a batch yet reads this epoch, too.
        """
        self._follow_epoch(epoch)


class StepSampler:
    """The steps of a loader, which are counted but not given as indices."""

    def __init__(self, sampler: EpochSampler, length: Callable[[], int]) -> None:
        self.sampler = sampler
        self._length = length

    def __len__(self) -> int:
        """Return the steps of this rank; raises TypeError when unknown."""
        return self._length()

    def __iter__(self) -> Iterator[list[int]]:
        _refuse_indices(self.sampler.dataset)


def _refuse_indices(dataset: ServedDataset) -> NoReturn:
    """Raise for a framework that would build a loader of its own from this one's indices."""
    raise DataError(
        f"the loader of {dataset.name} cannot be rebuilt to skip batches: save its state_dict() "
        "with the checkpoint and give it to load_state_dict(), which skips what was read (with "
        "Hugging Face's Trainer, set ignore_data_skip=True)"
    )
