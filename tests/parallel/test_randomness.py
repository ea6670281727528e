"""What modules draw depends on their place alone, and who draws elsewhere does not notice."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402 - torch comes first, or nothing here runs
from torch import nn  # noqa: E402

from launcher.parallel import Randomness, Section, cut  # noqa: E402


class Noise(nn.Module):
    """Draws from all generators that there are."""

    def forward(self, x):
        return x + random.random() + np.random.randn() + torch.randn(())


MODULES = {
    "torch's own": lambda: nn.Dropout(0.5),
    "another's": Noise,
    "another's in torch's own": lambda: nn.Sequential(nn.Dropout(0.5), Noise()),
}


def begin() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


def elsewhere() -> tuple[float, ...]:
    return random.random(), np.random.randn(), torch.randn(()).item()


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_numbers_depend_on_the_place_alone(make) -> None:
    model, x = nn.ModuleDict({"drawing": make()}), torch.ones(64)
    randomness = Randomness(model, {"drawing": 0})

    def drawn(**place: int):
        elsewhere()
        randomness.set_position(**{"step": 0, "replica": 0, "microbatch": 0, **place})
        return model["drawing"](x), model["drawing"](x)

    first, second = drawn()
    assert all(map(torch.equal, (first, second), drawn()))
    assert not torch.equal(first, second)
    for place in ({"step": 1}, {"replica": 1}, {"microbatch": 1}):
        assert not torch.equal(first, drawn(**place)[0])


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)
def test_other_numbers_are_as_if_nothing_had_been_drawn(make) -> None:
    begin()
    undisturbed = [elsewhere() for _ in range(3)]
    model = nn.ModuleDict({"drawing": make()})
    randomness = Randomness(model, {"drawing": 0})
    begin()
    found = []
    for step in range(3):
        found.append(elsewhere())
        randomness.set_position(step=step, replica=0, microbatch=0)
        model["drawing"](torch.ones(64))
    assert found == undisturbed


class Turned(nn.Module):
    """Drops elements of a tensor that is not contiguous, by their order in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.first(x).permute(2, 0, 1))


def test_a_stage_draws_in_the_memory_order_of_the_whole_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Section, "_check_seeded", lambda *_: None)  # it is seeded here by hand
    model, x = Turned(), torch.ones(4, 3, 6)
    first, second = (
        Section(stage, number) for number, stage in enumerate(cut(model, ["drop"], {"x": x}))
    )
    (crossing,) = first(x)
    assert crossing.is_contiguous()  # as it is received
    torch.manual_seed(3)
    (found,) = second(crossing)
    torch.manual_seed(3)
    assert torch.equal(found, model(x))
