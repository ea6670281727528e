"""An adversary's datasets, which draw from everything: the same everywhere, or found different."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("recipes")

from recipes import FORCED, FOUND, KEPT

from launcher.data.order.dataset_arguments import with_arguments

Prepare = Callable[[dict[str, list[str]], bool], list[dict[str, object]]]
ORDERS = ([0, 1, 2], [2, 0, 1])


@pytest.fixture(scope="module")
def prepare() -> Iterator[Prepare]:
    """Lets two processes prepare the batches of a recipe, each in an order of its own."""
    workers = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("recipe_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        for _ in ORDERS
    ]

    def ask(recipe: dict[str, list[str]], collates: bool) -> list[dict[str, object]]:
        spec = {
            "name": "recipe",
            "dataset": with_arguments("recipes:Recipe", recipe),
            "batch_size": 2,
            "collate_fn": "recipes:collate_with_noise" if collates else None,
        }
        for worker, steps in zip(workers, ORDERS, strict=True):
            assert worker.stdin is not None
            print(json.dumps({"spec": spec, "steps": steps}), file=worker.stdin, flush=True)
        return [json.loads(worker.stdout.readline()) for worker in workers if worker.stdout]

    yield ask
    for worker in workers:
        worker.communicate()


def lists_of(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=4)


def recipes_of(names: list[str]) -> st.SearchStrategy[dict[str, list[str]]]:
    parts = {"made": names, "drawn": names, "threaded": names, "kept": KEPT}
    return st.fixed_dictionaries({part: lists_of(sources) for part, sources in parts.items()})


def check(prepare: Prepare, recipe: dict[str, list[str]], collates: bool) -> None:
    """Both processes prepare the same unless the recipe holds a source that is not forced."""
    one, other = prepare(recipe, collates)
    used = {source for sources in recipe.values() for source in sources}
    differ = [step for step in one if one[step] != other[step]]
    assert sorted(differ) == (["0", "1", "2"] if used & FOUND.keys() else []), used


examples = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.long
@settings(examples, max_examples=60)
@given(recipe=recipes_of([*FORCED, *FOUND]), collates=st.booleans())
def test_what_draws_from_anything_is_the_same_or_found(
    prepare: Prepare, recipe: dict[str, list[str]], collates: bool
) -> None:
    check(prepare, recipe, collates)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", [[*FORCED], [*FORCED, *FOUND]], ids=["forced", "all"])
@settings(examples, max_examples=1000)
@given(data=st.data(), collates=st.booleans())
def test_2000_recipes_are_the_same_or_found(
    prepare: Prepare, names: list[str], data: st.DataObject, collates: bool
) -> None:
    check(prepare, data.draw(recipes_of(names)), collates)
