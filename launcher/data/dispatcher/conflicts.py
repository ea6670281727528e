"""Epoch reads that conflict with reads which may already be over.

Restarted ranks may read with other settings than the ranks before them, and a host that was cut off
has not yet reported that its old ranks are gone. The dispatcher therefore asks the hosts of the
conflicting reads before it refuses the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.data.control import messages as m
from launcher.data.dispatcher.peer import Peer

#: Seconds a host has to answer; after that, its epoch reads no longer block others.
PATIENCE = 3.0


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """An epoch read that waits to be opened.

    peer: its receiver. objections: a description of each conflict, by the conflicting read's id.
    """

    peer: Peer
    opened: m.OpenRun
    objections: dict[str, str]
    since: float


class Conflicts:
    """The unresolved conflicts, by the id of the epoch read that waits."""

    def __init__(self) -> None:
        self._all: dict[str, Conflict] = {}

    def __iter__(self) -> Iterator[Conflict]:
        return iter(list(self._all.values()))

    def begin(self, conflict: Conflict) -> None:
        """Add a conflict."""
        self._all[conflict.opened.run] = conflict

    def end(self, run: str) -> None:
        """Remove the conflict of an epoch read, if it has one."""
        self._all.pop(run, None)

    def confirmed(self, run: str) -> Iterator[tuple[Conflict, str]]:
        """Resolve the conflicts with an epoch read that is confirmed to be still open.

        Yields each conflict with the description of its difference from that read.
        """
        for conflict in self:
            if run in conflict.objections:
                self.end(conflict.opened.run)
                yield conflict, conflict.objections[run]
