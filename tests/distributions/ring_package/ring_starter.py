"""A made-up starter: the half of another package that runs inside a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.runtime import Starter


class RingStarter(Starter):
    def run(self, program: Sequence[str]) -> None:
        width = self.host.environment.document.trainer.settings["width"]
        self.run_child(program[0], program[1:], {"RING_WIDTH": str(width), "RANK": "0"})

    def exits(self, code: int) -> Mapping[int, int]:
        return {0: code}
