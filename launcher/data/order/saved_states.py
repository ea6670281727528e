"""States of iterable datasets that can resume, so that a shard need not be read from its start.

A dataset with `state_dict` and `load_state_dict` is asked for its state every few batches. Whoever
reads its shard again loads the latest state but one, reads on to the latest, and compares the
batches and the random states with those that were saved. Where they differ, the shard is read from
its start. The latest two travel with the batches, and so in the loader's own state.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from launcher.data.batches import structure, wire
from launcher.errors import DataError, WireError

#: States kept of one shard, those it is resumed by, the characters of one, the batches between two.
MOST_STATES = 4
PAIR = 2
_MOST_CHARACTERS = 1 << 18
_INTERVAL = 8


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """A state after the first `batches` of a shard, with `samples`.

    fingerprint: of the batches. dataset: its state, encoded, as are the random states by name, of
    those that reading has changed since they were seeded.
    """

    batches: int
    samples: int
    fingerprint: str
    dataset: str
    random: dict[str, str]

    @classmethod
    def from_json(cls, raw: Any) -> SavedState:
        """Return the state that `vars` gave; raises WireError if it is damaged."""
        try:
            return cls(
                batches=int(raw["batches"]),
                samples=int(raw["samples"]),
                fingerprint=str(raw["fingerprint"]),
                dataset=str(raw["dataset"]),
                random={str(name): str(state) for name, state in raw["random"].items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise WireError(f"a damaged state of a dataset: {error!r}") from error


@dataclass(frozen=True, kw_only=True)
class ShardPrefix:
    """The batches of a shard that a rank has taken: their fingerprint, if known, and states."""

    fingerprint: str = ""
    states: tuple[SavedState, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"fingerprint": self.fingerprint, "states": [vars(each) for each in self.states]}

    @classmethod
    def from_json(cls, raw: Any) -> ShardPrefix:
        """Invert `to_json`; raises WireError."""
        try:
            states = tuple(SavedState.from_json(each) for each in raw["states"])
            return cls(fingerprint=str(raw["fingerprint"]), states=states)
        except (KeyError, TypeError) as error:
            raise WireError(f"a damaged state of a dataset: {error!r}") from error


def can_resume(dataset: object) -> bool:
    """Return whether a dataset has the two methods that a state needs."""
    return all(callable(getattr(dataset, f"{verb}state_dict", None)) for verb in ("", "load_"))


def encode(value: object) -> str:
    """Return a state as text; raises DataError for types that batches may not hold."""
    tree, arrays = structure.disassemble(value)
    frame = wire.WireFrame.pack("", 0, "", tree, arrays)
    return f"{frame.header.content_bytes} {base64.b64encode(b''.join(frame.buffers)).decode()}"


def encode_each(states: Mapping[str, object]) -> dict[str, str]:
    """Return states by name as text."""
    return {name: encode(state) for name, state in states.items()}


def decode(text: str) -> Any:
    """Invert `encode`; raises WireError."""
    size, _, content = text.partition(" ")
    try:
        payload = np.frombuffer(bytearray(base64.b64decode(content, validate=True)), np.uint8)
        tree, arrays = wire.unpack(payload, int(size))
    except ValueError as error:
        raise WireError(f"a damaged state of a dataset: {error!r}") from error
    return structure.Assembly().rebuild(tree, arrays)


class SavedStates:
    """The latest states of one shard, and when the next one is due.

    send: passes on each state that is saved here. inexact: the datasets of this process that are
    known not to resume. share: of the time to read a shard, that saving its states may take; else
    they are saved more rarely.
    """

    def __init__(
        self,
        dataset: str,
        send: Callable[[SavedState], object] = lambda _: None,
        *,
        inexact: set[str] | None = None,
        share: float = 0.05,
    ) -> None:
        self._dataset = dataset
        self._inexact = set() if inexact is None else inexact
        self._send, self._share = send, share
        self._states: list[SavedState] = []
        self._not_before = 0.0  # on the clock of this process

    @property
    def are_exact(self) -> bool:
        """False once the dataset is known not to resume."""
        return self._dataset not in self._inexact

    def add(self, states: Iterable[SavedState]) -> None:
        """Add states that another worker has saved."""
        every = {each.batches: each for each in (*self._states, *states)}
        self._states = [every[batches] for batches in sorted(every)][-MOST_STATES:]

    def pair(self, end: int) -> tuple[SavedState, SavedState] | None:
        """Return the two latest states that are not beyond a batch, if there are two."""
        found = [each for each in self._states if each.batches <= end][-PAIR:]
        return (found[0], found[1]) if len(found) == PAIR and self.are_exact else None

    def is_due(self, batches: int) -> bool:
        """Return whether the state after so many batches is to be saved."""
        latest = self._states[-1].batches if self._states else 0
        is_time = time.perf_counter() >= self._not_before
        return self.are_exact and batches >= latest + _INTERVAL and is_time

    def save(self, make: Callable[[], SavedState]) -> SavedState:
        """Save a state and return it; raises as `make` does, and DataError if it is too large."""
        started = time.perf_counter()
        state = make()
        if sum(map(len, (state.dataset, *state.random.values()))) > _MOST_CHARACTERS:
            raise DataError(f"its state has more than {_MOST_CHARACTERS >> 10} KiB")
        ended = time.perf_counter()
        self._not_before = ended + (ended - started) / self._share
        self.add([state])
        self._send(state)
        return state

    def forget(self) -> None:
        """Forget the states, of a reading that is not the one to repeat."""
        self._states.clear()

    def give_up(self) -> bool:
        """Save and use no state from now on; return whether that is new."""
        is_new = self.are_exact
        self._inexact.add(self._dataset)
        self.forget()
        return is_new
