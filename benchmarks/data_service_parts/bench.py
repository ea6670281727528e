"""Settings that every row of the benchmark gets."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from data_service_parts.harness import Harness


@dataclass(frozen=True, kw_only=True)
class Bench:
    """rounds: measurements of each side, in turn. is_quick: a smoke run, whose figures are void.

    peers_python: an interpreter with TensorFlow, gRPC, protobuf and torch; None: those peers are
    not measured.
    """

    rounds: int
    is_quick: bool
    folder: Path
    peers_python: str | None
    harness: Harness = field(default_factory=Harness)

    def pick(self, usual: float, quick: float) -> float:
        """Return the usual value, or the one for a quick run."""
        return quick if self.is_quick else usual

    def log(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)
