"""Arithmetic of the bytes of a stage that several ranks share (FSDP2). Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StageState:
    """Bytes of a stage, or of a model in one stage, besides its activations.

    parameters, gradients: of trained and other parameters. states: of the optimizer. largest:
    parameters of the largest block that is gathered by itself. rest: parameters in no such block.
    """

    parameters: int
    gradients: int
    states: int
    largest: int = 0
    rest: int = 0

    def on_rank(
        self, shard_degree: int, *, accumulates: bool = True, keep_gathered: bool = False
    ) -> StageState:
        """Return what each of the ranks needs that share the stage, at most at a time.

        Parameters are a rank's share and what is gathered: whatever is in no block, the block that
        runs, and the next one, which is fetched early. Gradients are added up whole before they are
        reduced.

        accumulates: false if gradients are reduced in the only backward pass of a step, block by
            block. keep_gathered: true if blocks stay gathered during a step.
        """
        if shard_degree == 1:
            return self
        gathered = self.parameters
        if not keep_gathered:
            gathered = min(self.rest + 2 * self.largest, self.parameters)
        return StageState(
            parameters=_share(self.parameters, shard_degree) + gathered,
            gradients=self.gradients if accumulates else _share(self.gradients, shard_degree),
            states=_share(self.states, shard_degree),
            largest=self.largest,
            rest=self.rest,
        )


def _share(count: int, shard_degree: int) -> int:
    """Return the largest share of some bytes."""
    return -(-count // shard_degree)
