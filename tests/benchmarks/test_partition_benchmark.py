"""The benchmark of partitions runs: its figures are void here, but they are all there."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick_runs import figures_of

pytest.importorskip("torch")

from launcher.parallel.partitioning import Chain
from launcher.shared import ModuleCost
from partition_parts.inside.rules import by_count, by_layers, by_parameters, layers
from partition_parts.rows.ranking import kendall


@pytest.mark.slow
def test_random_cuts_are_predicted_and_timed_under_both_schedules(tmp_path: Path) -> None:
    figures = figures_of("partition.py", tmp_path, "ranking")
    for schedule in ("interleaved", "simple"):
        assert -1 <= figures[f"{schedule}: random cuts, predicted and measured, tau"]["median"] <= 1
        assert figures[f"{schedule}: the chosen cuts, to the best measured"]["median"] >= 1


@pytest.mark.slow
def test_rules_that_measure_nothing_are_timed_beside_ours(tmp_path: Path) -> None:
    figures = figures_of("partition.py", tmp_path, "baselines")
    rules = [figures[name] for name in figures if name.endswith("to ours")]
    assert len(rules) == 3 * len([name for name in figures if "a step of ours" in name])
    for each in rules:
        assert each["median"] > 0
        assert (each["target"] is None) == (each["note"] == "it has the same cuts")


@pytest.mark.slow
@pytest.mark.alone  # beside other tests, what it measures makes one cut the best for both
def test_the_cuts_for_memory_live_where_those_for_speed_die(tmp_path: Path) -> None:
    for _ in range(3):
        figures = figures_of("partition.py", tmp_path, "memory")
        is_valid = figures["cut for speed: the largest rank, to memory's (valid run)"]["verdict"]
        if is_valid == "pass":
            break  # else both cuts are alike, and the run says nothing
    assert is_valid == "pass", figures
    assert figures["cut for memory: steps under the limit"]["verdict"] == "pass", figures
    assert figures["cut for speed: steps under the limit"]["verdict"] == "pass", figures


def chain(**parameters: int) -> Chain:
    """Modules by name, and the bytes of their parameters."""
    return Chain(
        tuple(
            ModuleCost(
                name=name.replace("_", "."), forward=1.0, backward=2.0, parameters=size, crossing=1
            )
            for name, size in parameters.items()
        )
    )


def test_rules_cut_between_layers_as_those_who_have_them_do() -> None:
    # The first layer is one module, as are the stem and the head of a language model.
    model = chain(stem=9, rows_0_a=1, rows_0_b=1, rows_1_a=1, rows_1_b=1, rows_2=1, head=9)
    starts = layers(model)
    assert starts == [0, 1, 3, 5, 6]
    assert by_count(model, 2) == (4,)
    assert by_layers(starts, 2) == (5,)  # stem and two rows, one row and the head
    assert by_parameters(model, starts, 2) == (3,)  # 11 and 12, not 13 and 10
    assert by_layers(layers(chain(**{f"_{n}_0": 1 for n in range(3)})), 3) == (1, 2)


@pytest.mark.parametrize(
    ("others", "tau"),
    [
        ([1.0, 2.0, 3.0, 4.0], 1.0),
        ([4.0, 3.0, 2.0, 1.0], -1.0),
        ([1.0, 2.0, 4.0, 3.0], 4 / 6),
        ([1.0, 1.0, 2.0, 3.0], 5 / 30**0.5),  # of scipy.stats.kendalltau
    ],
)
def test_kendalls_tau_is_the_share_of_pairs_in_the_same_order(
    others: list[float], tau: float
) -> None:
    assert kendall([1.0, 2.0, 3.0, 4.0], others) == pytest.approx(tau)
