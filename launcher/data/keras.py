"""Feed a loader to Keras 3's fit, on each backend, and keep its state in checkpoints.

import launcher.data.keras

data = launcher.data.keras.LoaderDataset(DataLoader("pipeline:train_set", batch_size=64))
checkpoint = launcher.data.keras.LoaderCheckpoint(data, "/opt/ml/checkpoints", every=100)
model.fit(data, epochs=5, initial_epoch=checkpoint.epoch, callbacks=[checkpoint])
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import keras
import numpy as np
from keras.src.trainers.data_adapters.data_adapter import DataAdapter  # fit takes its subclasses

from launcher.data.batches import as_arrays, tensors
from launcher.data.loader import DataLoader
from launcher.data.loader_state import State
from launcher.errors import DataError

_STEPS = "step-"
_CHECKPOINT = re.compile(f"{_STEPS}([0-9]+)")
#: Batches whose shapes are compared, as Keras does for generators.
_PEEKED = 2
_WEIGHTS, _STATE = "model.weights.h5", "loader.json"


class _EpochOver(int):
    """True for Keras, which then ends the epoch; other callbacks' True ends the training."""


_EPOCH_OVER = _EpochOver(1)


class LoaderDataset(DataAdapter):  # type: ignore[misc] # Keras has no types
    """The epochs of a loader for `fit`, `evaluate` and `predict`, one for each of Keras's epochs.

    Keras asks for batches more often than it trains on them: for their types, to build the model,
    and ahead. Each batch of an epoch is nevertheless trained on once, because what Keras drops is
    read again. With a `LoaderCheckpoint` that is exact. Without one, an epoch that was handed out
    to its last batch counts, which is wrong where Keras builds the model from an epoch that has as
    few batches as it reads ahead: build the model first.

    loader: a new one, which is read through this object alone. Its batches are inputs,
        (inputs, targets), (inputs, targets, sample weights) or a dict of inputs.

    Raises DataError for a loader that was read before or has no length.
    """

    def __init__(self, loader: DataLoader[object]) -> None:
        loader._count_held()
        if loader._steps_left() is None:
            raise DataError(
                f"the loader of {loader._spec.dataset} has no length, which fit needs: give the "
                "loader LoaderOptions(steps=...)"
            )
        self._loader = loader
        self._is_tracked = False  # by a LoaderCheckpoint
        # TensorFlow reads in threads of its own, and may still do so in an iteration that it drops.
        self._lock = threading.Lock()
        self._begin(loader.state_dict())

    def _begin(self, start: State) -> None:
        """Begin an epoch, or the rest of one."""
        self._start = start
        self._states: list[State] = []  # after each batch that was handed out
        self._is_complete = False  # the last batch was handed out
        #: Batches that were trained on since.
        self.trained = 0

    # What Keras calls -----------------------------------------------------------------------

    @property
    def num_batches(self) -> int:
        """Batches of a whole epoch; one that is resumed ends earlier."""
        return len(self._loader)

    @property
    def batch_size(self) -> int | None:
        """Samples of a batch."""
        return self._loader.batch_size

    @property
    def has_partial_batch(self) -> bool | None:
        """None: unknown."""
        return None

    @property
    def partial_batch_size(self) -> int | None:
        """None: unknown."""
        return None

    def get_numpy_iterator(self) -> Iterator[object]:
        """Return the batches of an epoch as arrays."""
        return self._read(as_arrays)

    def get_jax_iterator(self) -> Iterator[object]:
        """Return the batches of an epoch as arrays, which jax takes."""
        return self._read(as_arrays)

    def get_torch_dataloader(self) -> Iterator[object]:
        """Return the batches of an epoch as tensors."""
        return self._read(_as_tensors)

    def get_tf_dataset(self) -> object:
        """Return the batches of an epoch as a dataset; each iteration begins where training is."""
        from launcher.data.tf import PREFETCH, common_spec, without_auto_shard

        tf = keras.src.utils.module_utils.tensorflow
        peeked = self._read(as_arrays)
        spec = common_spec(itertools.islice(peeked, _PEEKED), self._loader)
        peeked.close()
        self._is_complete = False  # nothing was trained on, even if these are all
        dataset = tf.data.Dataset.from_generator(
            lambda: self._read(as_arrays), output_signature=spec
        )
        return without_auto_shard(dataset.prefetch(PREFETCH))

    def _read(self, convert: Callable[[object], object]) -> Generator[object, None, None]:
        with self._lock:
            batches, states = self._open()
            left = self._loader._steps_left()
        while True:
            with self._lock:
                if states is not self._states:
                    return  # another iteration has begun
                if (batch := next(batches, None)) is None:
                    self._end_early()
                    return
                states.append(self._loader.state_dict())
                self._is_complete = len(states) == left
            batch = convert(batch)
            yield batch if isinstance(batch, (dict, tuple)) else (batch,)
            del batch  # only Keras holds the memory

    def _open(self) -> tuple[Iterator[object], list[State]]:
        """Begin an iteration, with what was read ahead or dropped, or with the next epoch."""
        if self._states and (self._is_tracked or not self._is_complete):
            self._loader.load_state_dict(self.state_dict())
            self._begin(self.state_dict())
        elif self._states:
            self._begin(self._states[-1])
        if self._loader._steps_left() == 0:  # a state after the last batch of a stream
            self._loader.set_epoch(self._loader._resume_point.epoch + 1)
            self._begin(self._loader.state_dict())
        self._states = []  # of this iteration alone
        return iter(self._loader), self._states

    def _end_early(self) -> None:
        """Note the end of a stream with fewer batches than its `len()` promised."""
        self._is_complete = True
        if self._states:
            self._states[-1] = self._loader.state_dict()

    # What a LoaderCheckpoint calls ----------------------------------------------------------

    def track(self) -> None:
        """Count what `record_trained` reports, not what was handed out."""
        self._is_tracked = True

    def record_trained(self, more: int) -> bool:
        """Record that so many more batches were trained on; return True at the epoch's end."""
        self.trained = min(self.trained + more, len(self._states))
        if self._is_complete and self.trained == len(self._states):
            # None, if it was resumed after the last batch of a stream whose `len()` promised more.
            self._begin(self._states[-1] if self._states else self._loader.state_dict())
            return True
        return False

    @property
    def untrained(self) -> int:
        """Batches that were handed out and not trained on."""
        return len(self._states) - self.trained

    def state_dict(self) -> State:
        """Return the loader's state after the batch that was trained on last."""
        return self._states[self.trained - 1] if self.trained else self._start

    def load_state_dict(self, state: State) -> None:
        """Make the next epoch of `fit` resume where the state was taken."""
        self._loader.load_state_dict(state)
        self._begin(state)


def _as_tensors(batch: object) -> object:
    """Return a batch whose arrays are torch tensors of the same memory."""
    if isinstance(batch, dict):
        return {key: _as_tensors(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return tuple(_as_tensors(value) for value in batch)
    return tensors.as_tensor(np.asarray(batch)) if not tensors.is_tensor(batch) else batch


class LoaderCheckpoint(keras.callbacks.Callback):  # type: ignore[misc] # Keras has no types
    """Saves the model's weights, its optimizer and the loader's state together; resumes from them.

    Each sample of the trajectory that is kept is trained on exactly once: `fit` resumes with the
    batch after the last one that the checkpoint's weights have seen, whatever was read ahead. A
    checkpoint is complete or not there, and the newest is kept. Rank 0 writes; all ranks read.

    data: what `fit` gets. folder: a checkpoint folder that every rank sees, made if need be.
    every: batches between checkpoints; by default one at the end of each epoch.

    Raises DataError when `fit` is given another initial_epoch than `epoch`, or when a loader with
    in_order=False has several ranks, as its state covers one.
    """

    def __init__(self, data: LoaderDataset, folder: str | Path, every: int | None = None) -> None:
        super().__init__()
        spec, world = data._loader._spec, data._loader._world
        if not spec.in_order and world > 1:
            raise DataError(f"the state of {spec.name} covers one of {world} ranks: in_order=True")
        self._data = data
        self._folder, self._every = Path(folder), every
        self._rank = int(os.environ.get("RANK", 0))
        data.track()
        #: Epoch with which `fit` goes on: give it as `initial_epoch`.
        self.epoch = 0
        #: Batches trained on since the first epoch.
        self.steps = 0
        self._resumed_from = _newest(self._folder)
        if self._resumed_from is not None:
            saved = json.loads((self._resumed_from / _STATE).read_text())
            self.epoch, self.steps = saved["epoch"], saved["steps"]
            data.load_state_dict(saved["loader"])
        self._seen, self._has_ended = 0, False  # within the epoch of fit
        self._is_short = (data._loader._steps_left() or 0) < data.num_batches

    def on_train_begin(self, logs: object = None) -> None:
        """Load the weights and the optimizer, if there is a checkpoint."""
        if self._resumed_from is None:
            return
        if self.model.optimizer is not None and not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        self.model.load_weights(self._resumed_from / _WEIGHTS)
        self._resumed_from = None

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        """Check that this is the epoch that the checkpoint was taken in."""
        if epoch != self.epoch:
            raise DataError(
                f"fit began epoch {epoch}, and the data is at epoch {self.epoch}: call "
                "fit(..., initial_epoch=checkpoint.epoch)"
            )
        self._seen, self._has_ended = 0, False

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """Record the batches trained on, and save if it is time."""
        before = self.steps
        self._record(batch + 1 - self._seen)
        self._seen = batch + 1
        if self._every and self.steps // self._every > before // self._every:
            self._save(self.epoch + self._has_ended)
        if self._has_ended and self._is_short and not self.model.stop_training:
            # Else Keras runs a step without a batch. With TensorFlow it would count for the
            # optimizer and for random layers, which need no batch for that.
            self.model.stop_training = _EPOCH_OVER

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        """Record the end of the epoch, and save."""
        is_left = self._is_left_within()
        if self.model.stop_training is _EPOCH_OVER:
            self.model.stop_training = False
        elif self.params.get("steps") == self._data.num_batches and not self.model.stop_training:
            self._record(self._data.untrained)  # steps_per_execution does not divide the epoch
        self.epoch, self._is_short = (epoch, True) if is_left else (epoch + 1, False)
        if not self._every:
            self._save(self.epoch)

    def _is_left_within(self) -> bool:
        """Return whether another callback ends `fit` before the end of Keras's epoch."""
        is_over = self._has_ended or self._seen >= self.params["steps"]
        return bool(self.model.stop_training) and not is_over

    def _record(self, more: int) -> None:
        if not self._has_ended:
            more = min(more, self._data.untrained)
            self.steps += more
            self._has_ended = self._data.record_trained(more)

    def _save(self, epoch: int) -> None:
        model = self.model  # with Keras's jax backend, this brings its variables up to date
        if self._rank != 0:
            if _saves_together():
                with tempfile.TemporaryDirectory() as not_kept:
                    model.save_weights(Path(not_kept) / _WEIGHTS)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        made = self._folder / f".{_STEPS}{self.steps}"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        model.save_weights(made / _WEIGHTS)
        state = {"epoch": epoch, "steps": self.steps, "loader": self._data.state_dict()}
        (made / _STATE).write_text(json.dumps(state))
        older = _checkpoints(self._folder)
        target = self._folder / f"{_STEPS}{self.steps}"
        if target in older:  # of an epoch that has ended with it: each file is valid with both
            older.remove(target)
            for name in (_WEIGHTS, _STATE):
                (made / name).replace(target / name)
            shutil.rmtree(made)
        else:
            made.rename(target)
        for each in older:
            shutil.rmtree(each, ignore_errors=True)


def _saves_together() -> bool:
    """Return whether saving is a step of all ranks: Keras makes variables then, as jax arrays."""
    if keras.backend.backend() != "jax":
        return False
    import jax

    return bool(jax.process_count() > 1)


def _checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, the newest last."""
    found = {
        int(match[1]): each
        for each in folder.glob(f"{_STEPS}*")
        if (match := _CHECKPOINT.fullmatch(each.name)) and (each / _STATE).exists()
    }
    return [found[step] for step in sorted(found)]


def _newest(folder: Path) -> Path | None:
    found = _checkpoints(folder)
    return found[-1] if found else None
