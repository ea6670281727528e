"""Constructors whose signature names every argument, with a clear answer to any other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from launcher.client.estimator.job_keywords import full_signature
from launcher.client.spec import NOT_TAKEN, hint_for_name
from launcher.errors import Problem, SpecError

Constructor = TypeVar("Constructor", bound=Callable[..., None])


def refusing_unknown(keywords: type[Mapping[str, object]]) -> Callable[[Constructor], Constructor]:
    """Return a decorator of a constructor; an unknown argument then raises TypeError.

    The error names a similar argument. Unsupported arguments of SDK v2 are ignored if they are
    empty, and raise SpecError otherwise. The constructor's signature names every keyword.
    """

    def decorate(constructor: Constructor) -> Constructor:
        signature = full_signature(constructor, keywords)
        known = signature.parameters.keys() - {"self"}

        def checked(*given: object, **named: object) -> None:
            _refuse({name: value for name, value in named.items() if name not in known}, known)
            constructor(*given, **{name: named[name] for name in named if name in known})

        functools.update_wrapper(checked, constructor)
        vars(checked)["__signature__"] = signature
        return cast(Constructor, checked)

    return decorate


def _refuse(others: Mapping[str, object], known: Iterable[str]) -> None:
    unknown = [name for name in others if name not in NOT_TAKEN]
    if unknown:
        what = f"{unknown[0]!r} is not an argument of an Estimator"
        raise TypeError(what + hint_for_name(unknown[0], known))
    given = [name for name, value in others.items() if value]
    if given:
        raise SpecError(
            Problem(what=f"Launcher takes no {name}", where=name, fix=NOT_TAKEN[name])
            for name in given
        )
