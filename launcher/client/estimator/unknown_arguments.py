"""Constructors whose signature names every argument, with a clear answer to any other."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field
from typing import Any, TypeVar, cast

from launcher.client.estimator.spec_attributes import FIELDS, accepted_type
from launcher.client.spec import NOT_TAKEN, hint_for_name
from launcher.errors import Problem, SpecError

Constructor = TypeVar("Constructor", bound=Callable[..., None])


def refusing_unknown(
    without: Collection[str] = (),
) -> Callable[[Constructor], Constructor]:
    """Return a decorator of a constructor; an unknown argument then raises TypeError.

    The error names a similar argument. Unsupported arguments of SDK v2 are ignored if they are
    empty, and raise SpecError otherwise. The constructor's signature names every field of a job
    but those in `without`, and the session.
    """

    def decorate(constructor: Constructor) -> Constructor:
        signature = _full_signature(constructor, without)
        known = signature.parameters.keys() - {"self"}

        def checked(*given: object, **named: object) -> None:
            _refuse({name: value for name, value in named.items() if name not in known}, known)
            constructor(*given, **{name: named[name] for name in named if name in known})

        functools.update_wrapper(checked, constructor)
        vars(checked)["__signature__"] = signature
        return cast(Constructor, checked)

    return decorate


def _full_signature(
    constructor: Callable[..., None], without: Collection[str]
) -> inspect.Signature:
    """Return a constructor's signature, in which each field of a job is a parameter."""
    own = inspect.signature(constructor)
    named = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    left = [part for name, part in FIELDS.items() if name not in {*own.parameters, *without}]
    session = _keyword("sagemaker_session", None, "object")
    return own.replace(parameters=[*named, *map(_keyword_of, left), session])


def _keyword_of(part: Field[Any]) -> inspect.Parameter:
    return _keyword(
        part.name, None if part.default is MISSING else part.default, accepted_type(part)
    )


def _keyword(name: str, default: object, annotation: str) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


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
