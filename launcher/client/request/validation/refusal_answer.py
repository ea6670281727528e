"""The message in which AWS reports everything wrong with a request."""

from __future__ import annotations

from collections.abc import Iterable

from launcher.client.request.validation.violations import ONE_ERROR, Violation


def aws_answer(violations: Iterable[Violation]) -> str:
    """Return the message of AWS's ValidationException for these errors; "" if all are warnings.

    The service first checks a request against its model and reports every violation. Only then
    does it check its own rules, of which it reports the first that is broken.
    """
    messages = [found.aws_message for found in violations if not found.is_warning]
    constraints = dict.fromkeys(
        text.removeprefix(ONE_ERROR) for text in messages if text.startswith(ONE_ERROR)
    )
    if len(constraints) > 1:
        return f"{len(constraints)} validation errors detected: {'; '.join(constraints)}"
    return "".join(ONE_ERROR + text for text in constraints) or "".join(messages[:1])
