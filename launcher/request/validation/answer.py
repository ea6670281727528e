"""The one message in which AWS tells all that it finds wrong with a request."""

from __future__ import annotations

from collections.abc import Iterable

from launcher.request.validation.violations import ONE_ERROR, Violation


def aws_answer(violations: Iterable[Violation]) -> str:
    """The message of AWS's ValidationException for these errors; "" when all are warnings.

    The service holds a request against its model first and tells everything that it finds; only
    then against its rules, and tells the first that is broken.
    """
    messages = [found.aws_message for found in violations if not found.is_warning]
    constraints = dict.fromkeys(
        text.removeprefix(ONE_ERROR) for text in messages if text.startswith(ONE_ERROR)
    )
    if len(constraints) > 1:
        return f"{len(constraints)} validation errors detected: {'; '.join(constraints)}"
    return "".join(ONE_ERROR + text for text in constraints) or "".join(messages[:1])
