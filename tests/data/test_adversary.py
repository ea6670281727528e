"""An adversary's datasets, which draw from everything: the same everywhere, or found different."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("recipes")

from recipes import FORCED, FOUND, KEPT, KEPT_AND_FOUND

from launcher.data import DataLoader, LoaderOptions
from launcher.data.order import with_arguments
from launcher.errors import DataError

Recipe = dict[str, list[str]]
Prepare = Callable[[dict[str, object], int], list[dict[str, object]]]


def lists_of(names: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=3)


def recipes_of(names: list[str], kept: list[str]) -> st.SearchStrategy[Recipe]:
    places = ("made", "drawn", "threaded", "tasks", "collated")
    parts = {**dict.fromkeys(places, names), "kept": kept}
    return st.fixed_dictionaries({part: lists_of(sources) for part, sources in parts.items()})


FORCED_ALONE = recipes_of([*FORCED], [*KEPT])
ANY = recipes_of([*FORCED, *FOUND], [*KEPT, *KEPT_AND_FOUND])


def found_in(recipe: Recipe, *parts: str) -> set[str]:
    """The sources of some parts of a recipe that are not forced."""
    return {name for part in parts for name in recipe[part]} & (FOUND.keys() | KEPT_AND_FOUND)


def stream(kind: str, recipe: Recipe, collates: bool) -> dict[str, object]:
    return {
        "name": "recipe",
        "dataset": with_arguments(f"recipes:{kind}", recipe),
        "batch_size": 2,
        "collate_fn": "recipes:collate_with_noise" if collates else None,
    }


def check(prepare: Prepare, recipe: Recipe, collates: bool) -> None:
    """Both processes prepare the same, or the recipe holds a source that is not forced.

    Workers of a loader that compares all batches are forks, which share what the constructor drew.
    """
    each_time = ["drawn", "threaded", "tasks", *(["collated"] if collates else [])]
    by_index = found_in(recipe, "made", "kept", *each_time)
    assert differing(prepare(stream("Recipe", recipe, collates), 3)) == (
        by_index and {"0", "1", "2"}
    )
    from_shards = found_in(recipe, "made", *each_time)  # what it keeps is made anew with it
    prepared = prepare(stream("RecipeStream", recipe, collates), 3)
    assert differing(prepared) == (from_shards and {"0", "1", "2"})
    assert is_refused(recipe, collates) == bool(found_in(recipe, "kept", *each_time))


def differing(prepared: list[dict[str, object]]) -> set[str]:
    one, other = prepared
    return {step for step in one if one[step] != other[step]}


def is_refused(recipe: Recipe, collates: bool) -> bool:
    loader = DataLoader(
        "recipes:Recipe",
        batch_size=2,
        dataset_args=recipe,
        collate_fn="recipes:collate_with_noise" if collates else None,
        workers=2,
        options=LoaderOptions(verify=1.0, on_nondeterminism="error"),
    )
    try:
        list(loader)
    except DataError as error:
        return "is not reproducible" in str(error)
    return False


examples = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.long
@settings(examples, max_examples=60)
@given(recipe=st.one_of(FORCED_ALONE, ANY), collates=st.booleans())
def test_what_draws_from_anything_is_the_same_or_found(
    prepare: Prepare, recipe: Recipe, collates: bool
) -> None:
    check(prepare, recipe, collates)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("recipes", [FORCED_ALONE, ANY], ids=["forced", "all"])
@settings(examples, max_examples=1000)
@given(data=st.data(), collates=st.booleans())
def test_2000_recipes_are_the_same_or_found(
    prepare: Prepare, recipes: st.SearchStrategy[Recipe], data: st.DataObject, collates: bool
) -> None:
    check(prepare, data.draw(recipes), collates)
