"""What every row gets: how long to measure, where, and with what."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from data_service_parts.harness import Harness


@dataclass(frozen=True, kw_only=True)
class Bench:
    """rounds: of every side, in turns. is_quick: only to see that it works; the figures are void.

    peers_python: an interpreter with TensorFlow, gRPC, protobuf and torch; None: those peers are
    not measured.
    """

    rounds: int
    is_quick: bool
    folder: Path
    peers_python: str | None
    harness: Harness = field(default_factory=Harness)

    def pick(self, usual: float, quick: float) -> float:
        """A length or a count: the usual one, or the one of a quick run."""
        return quick if self.is_quick else usual

    def say(self, words: str) -> None:
        print(words, file=sys.stderr, flush=True)
