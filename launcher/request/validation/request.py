"""A request as a whole: the model's limits, and then the rules between fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.request.validation.limits import find_violations_of, is_typed
from launcher.request.validation.model import input_shape
from launcher.request.validation.rules import RULES
from launcher.request.validation.violations import Violation


def find_violations(request: Mapping[str, Any]) -> tuple[Violation, ...]:
    """Everything that is wrong with a CreateTrainingJob request, errors and warnings.

    The rules between fields are asked once every value is of its type.
    """
    return tuple(_violations(request))


def _violations(request: Mapping[str, Any]) -> Iterator[Violation]:
    shape = input_shape()
    yield from find_violations_of(shape, request)
    if is_typed(shape, request):
        for rule in RULES:
            yield from rule(request)
