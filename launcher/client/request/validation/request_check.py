"""Validation of a whole request: the model's limits, then the rules between fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.client.request.validation.model_limits import WrongType, find_violations_of
from launcher.client.request.validation.rules import RULES
from launcher.client.request.validation.service_model import input_shape
from launcher.client.request.validation.violations import Violation

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest


#: The parts of a request whose members the rules read.
_OF_RULES = ("AlgorithmSpecification", "InputDataConfig", "ResourceConfig", "StoppingCondition")


def find_violations(request: TrainingJobRequest) -> tuple[Violation, ...]:
    """Return all errors and warnings about a CreateTrainingJob request.

    The rules between fields are checked only if the values that they read have the right type.
    """
    of_the_model = tuple(find_violations_of(input_shape(), request))
    wrong = [found.path for found in of_the_model if isinstance(found, WrongType)]
    if any(not path or path[0] in _OF_RULES for path in wrong):
        return of_the_model
    return of_the_model + tuple(found for rule in RULES for found in rule(request))
