"""Where the ranks of one generation wait for each other, as in an all-reduce."""

from __future__ import annotations

import selectors
import socket
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(eq=False)
class _Guest:
    connection: socket.socket
    generation: str = ""
    is_waiting: bool = False


@dataclass
class Meeting:
    """Lets the ranks of a generation go on when all have come; older ones wait for ever."""

    path: Path
    generation: int = 0
    world: int = 0
    _guests: list[_Guest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(self.path))
        self._door.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._door, selectors.EVENT_READ, None)

    def attend(self, seconds: float) -> None:
        """Hear what ranks say within so many seconds, and let those go on who may."""
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                guest = _Guest(self._door.accept()[0])
                self._guests.append(guest)
                self._selector.register(guest.connection, selectors.EVENT_READ, guest)
            else:
                self._hear(key.data)
        waiting = [
            guest
            for guest in self._guests
            if guest.is_waiting and guest.generation == str(self.generation)
        ]
        if len(waiting) == self.world:
            for guest in waiting:
                guest.is_waiting = False
                self._tell(guest)

    def close(self) -> None:
        for guest in list(self._guests):
            self._dismiss(guest)
        self._selector.close()
        self._door.close()

    def _hear(self, guest: _Guest) -> None:
        try:
            words = guest.connection.recv(64)
        except OSError:
            words = b""
        if not words:
            self._dismiss(guest)
        elif not guest.generation:
            name, _, words = words.partition(b"\n")  # far shorter than a read: it comes whole
            guest.generation = name.decode()
        guest.is_waiting |= words.endswith(b".")

    def _tell(self, guest: _Guest) -> None:
        try:
            guest.connection.sendall(b".")
        except OSError:
            self._dismiss(guest)

    def _dismiss(self, guest: _Guest) -> None:
        self._selector.unregister(guest.connection)
        guest.connection.close()
        self._guests.remove(guest)
