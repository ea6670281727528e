"""Runs that differ from others which may be over: the hosts of those are asked first.

Ranks that are started again may read in another way than those before them, and a host that was cut
off has not said yet that its old ranks are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.data.control import messages as m
from launcher.data.dispatcher.peer import Peer

#: Seconds for a host to answer; the runs of one that does not bind nobody.
PATIENCE = 3.0


@dataclass(frozen=True, kw_only=True)
class Dispute:
    """A run that waits to be opened. peer: its receiver. objections: in words, by run."""

    peer: Peer
    opened: m.OpenRun
    objections: dict[str, str]
    since: float


class Disputes:
    """Those that are not settled, by their runs."""

    def __init__(self) -> None:
        self._all: dict[str, Dispute] = {}

    def __iter__(self) -> Iterator[Dispute]:
        return iter(list(self._all.values()))

    def begin(self, dispute: Dispute) -> None:
        self._all[dispute.opened.run] = dispute

    def end(self, run: str) -> None:
        self._all.pop(run, None)

    def confirmed(self, run: str) -> Iterator[tuple[Dispute, str]]:
        """A run is read still: those that differ from it, and how. They are settled."""
        for dispute in self:
            if run in dispute.objections:
                self.end(dispute.opened.run)
                yield dispute, dispute.objections[run]
