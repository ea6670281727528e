"""What two stages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - it needs torch

from launcher import parallel  # noqa: E402
from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel import ParallelContext, Ties, cut  # noqa: E402


@pytest.fixture
def world() -> Iterator[ParallelContext]:
    """One process that holds both stages."""
    yield parallel.init(virtual_stages=2)
    parallel.leave()


class Block(nn.Module):
    """Adds a table, which all blocks have; `rate` is by how much a call changes it."""

    def __init__(self, table: torch.Tensor, rate: float) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("table", table)
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.rate:
            self.table += self.rate
        return self.layer(x + self.table)


def blocks(*rates: float) -> nn.Module:
    table = torch.ones(6)
    return nn.Sequential(*(Block(table, rate) for rate in rates))


def test_stages_may_share_a_buffer_that_nothing_changes(world: ParallelContext) -> None:
    model = blocks(0, 0)
    Ties(model, cut(model, ["1"], {"input": torch.ones(2, 6)}), world)


def test_stages_may_not_share_a_buffer_that_one_of_them_changes(world: ParallelContext) -> None:
    model = blocks(0, 0.5)
    stages = cut(model, ["1"], {"input": torch.ones(2, 6)})
    with pytest.raises(ParallelError, match="0 and 1 share the buffer 1"):
        Ties(model, stages, world)


def test_parameters_in_the_same_memory_are_one_parameter_or_in_one_stage(
    world: ParallelContext,
) -> None:
    model, example = (
        nn.Sequential(*(nn.Linear(6, 6) for _ in range(3))),
        {"input": torch.ones(2, 6)},
    )
    model[2].weight.data = model[1].weight.data
    Ties(model, cut(model, ["1"], example), world)
    with pytest.raises(ParallelError, match=r"1.weight in stage 0 and 2.weight in stage 1 are two"):
        Ties(model, cut(model, ["2"], example), world)
    model[2].weight = model[1].weight
    Ties(model, cut(model, ["2"], example), world)
