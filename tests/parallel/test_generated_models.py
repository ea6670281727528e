"""Models of any make are cut exactly, or refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import HealthCheck, given, settings  # noqa: E402 - torch is asked for first
from hypothesis import strategies as st  # noqa: E402
from made_models import WIDTH, Made, Output, models  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from launcher.errors import ParallelError  # noqa: E402
from launcher.parallel import Randomness, boundaries, cut  # noqa: E402


def batch(given_too: dict[str, bool], generator: torch.Generator) -> dict[str, Any]:
    found: dict[str, Any] = {"x": torch.randn(4, WIDTH, generator=generator, dtype=torch.float64)}
    if given_too["mask"]:
        found["mask"] = (torch.rand(4, 1, generator=generator) > 0.5).double()
    if given_too["scale"]:
        found["scale"] = 2.0
    if given_too["bias"]:
        found["bias"] = torch.randn(WIDTH, generator=generator, dtype=torch.float64)
    return found


def loss_of(output: Any) -> torch.Tensor:
    leaves = tree_leaves(output)
    if len(leaves) == 1 and isinstance(leaves[0], Output):
        leaves = [leaves[0].logits, leaves[0].extra]
    return sum(each.sin().mean() for each in leaves if torch.is_tensor(each))


def learned(model: nn.Module, randomness: Randomness, run: Any, given_too: dict[str, bool]) -> Any:
    """The losses of six microbatches, and whatever the model is then.

    Four are for training, two to a step, and two in eval mode.
    """
    generator = torch.Generator().manual_seed(7)
    losses = []
    for step in range(3):
        model.train(step < 2)
        for microbatch in range(2):
            randomness.set_position(step=step, replica=0, microbatch=microbatch)
            loss = loss_of(run(batch(given_too, generator)))
            if step < 2:
                loss.backward()
            losses.append(loss.item())
        with torch.no_grad():
            for each in model.parameters():
                if each.grad is not None:
                    each -= 0.1 * each.grad
                    each.grad = None
    states = {name: value.tolist() for name, value in model.state_dict().items()}
    counts = [
        [vars(each).get(name) for name in ("calls", "log", "slotted", "hooked")]
        for each in model.modules()
    ]
    return losses, states, counts


def exact_or_refused(model: Made, given_too: dict[str, bool], place: int) -> str:
    """Cut a model at two of its boundaries; return the reason if it is refused."""
    alone = copy.deepcopy(model)
    example = batch(given_too, torch.Generator().manual_seed(1))
    try:
        places = boundaries(model, example)
        starts = sorted({place % len(places), place // 7 % len(places)}) if places else []
        (uncut,) = cut(model, (), example)
        stages = cut(model, [places[n] for n in starts], example)
    except ParallelError as refused:
        return str(refused)
    modes = {mode: [stage.in_mode(mode) for stage in stages] for mode in (True, False)}
    drawing = {*uncut.in_mode(True).drawing, *uncut.in_mode(False).drawing}

    def through(arguments: dict[str, Any]) -> Any:
        given: Any = [each for each in arguments.values() if torch.is_tensor(each)]
        for stage in modes[model.training]:
            given = stage.module(*given)
        return given

    try:
        expected = learned(
            alone, Randomness(alone, drawing), lambda given: alone(**given), given_too
        )
    except RuntimeError as error:
        if not any(words in str(error) for words in ("in-place", "inplace")):
            raise
        return f"the model itself cannot be trained: {error}"
    randomness = Randomness(model, drawing - {""})
    for stage in [*modes[True], *modes[False]]:
        randomness.seed_draws(stage.module.graph)
    found = learned(model, randomness, through, given_too)
    assert found[0] == pytest.approx(expected[0], rel=1e-12)
    assert found[2] == expected[2]
    assert found[1].keys() == expected[1].keys()
    for name, value in expected[1].items():
        assert torch.allclose(torch.tensor(found[1][name]), torch.tensor(value), rtol=1e-10), name
    return ""


# torch's own, for a hook of a layer whose input needs no gradient.
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")

_ANY = settings(
    deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


@pytest.mark.long
@settings(_ANY, max_examples=15)
@given(models(), st.integers(0, 1000))
def test_fifteen_models_are_exact_or_refused(
    made: tuple[Made, dict[str, bool]], place: int
) -> None:
    exact_or_refused(*made, place)


REASONS: list[str] = []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_models_are_exact_or_refused() -> None:
    @settings(_ANY, max_examples=200)
    @given(models(), st.integers(0, 1000))
    def check(made: tuple[Made, dict[str, bool]], place: int) -> None:
        REASONS.append(exact_or_refused(*made, place))

    check()
    refused = [reason for reason in REASONS if reason]
    assert len(REASONS) >= 200
    assert len(refused) < len(REASONS) / 2, refused
    assert all(": " in reason for reason in refused)
