"""Constructors whose signature names every argument, with a clear answer to any other."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from launcher.client.spec.spec_findings import did_you_mean
from launcher.errors import Problem, SpecError

Constructor = TypeVar("Constructor", bound=Callable[..., None])

#: Arguments of SDK v2 that Launcher does not accept, with the alternatives.
NOT_TAKEN = {
    "git_config": "clone the repository (git clone --branch BRANCH REPO), and give its folder as "
    "source_dir",
    "compiler_config": "AWS's training compiler is at its end; use torch.compile in the script",
    "training_recipe": "recipes are SageMaker HyperPod's; give the script and its hyperparameters",
    "recipe_overrides": "recipes are SageMaker HyperPod's; give the script and its hyperparameters",
}


def refusing_unknown(constructor: Constructor) -> Constructor:
    """Wrap a constructor so that an unknown argument raises TypeError with a similar name.

    Unsupported arguments of SDK v2 are ignored if they are empty, and raise SpecError otherwise.
    The signature stays the constructor's own.
    """
    known = inspect.signature(constructor).parameters.keys() - {"self"}

    def checked(*given: object, **named: object) -> None:
        _refuse({name: value for name, value in named.items() if name not in known}, known)
        constructor(*given, **{name: named[name] for name in named if name in known})

    functools.update_wrapper(checked, constructor)
    return cast(Constructor, checked)


def passed_on(names: Mapping[str, Any], *, but: Iterable[str] = ()) -> dict[str, Any]:
    """Return a constructor's own arguments, from its locals(), to pass on to its base class."""
    return {n: value for n, value in names.items() if n not in ("self", "__class__", *but)}


def _refuse(others: Mapping[str, object], known: Iterable[str]) -> None:
    unknown = [name for name in others if name not in NOT_TAKEN]
    if unknown:
        near = did_you_mean(unknown[0], known)
        hint = f"; did you mean {near!r}?" if near else ""
        raise TypeError(f"{unknown[0]!r} is not an argument of an Estimator{hint}")
    given = [name for name, value in others.items() if value]
    if given:
        raise SpecError(
            Problem(what=f"Launcher takes no {name}", where=name, fix=NOT_TAKEN[name])
            for name in given
        )
