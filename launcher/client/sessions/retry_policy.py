"""The client's only retry loop: growing pauses with jitter, a time limit, and a choice of errors.

Written by hand: tenacity would be one more dependency for these 15 lines, and its stop conditions
have no time limit that restarts whenever a transfer makes progress.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")
Error = TypeVar("Error", bound=Exception)


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Limits of a retry.

    seconds: from the first failure, or the last progress, until giving up; first, longest: the
    first pause and the longest, in seconds. Pauses double in between.
    """

    seconds: float
    first: float = 0.5
    longest: float = 10.0


def retry_call(
    call: Callable[[], Result],
    policy: RetryPolicy,
    is_retryable: Callable[[Error], bool],
    on_retry: Callable[[Error, float], None],
    *,
    errors: type[Error] | tuple[type[Error], ...],
    progress: Callable[[], Any] = lambda: None,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Return the result of `call`, repeated while it raises one of `errors` that is retryable.

    Raises the last error at the time limit, and an error that is not retryable at once.
    on_retry: called before each pause with the error and the pause in seconds; progress: returns a
    value whose change restarts the time limit.
    """
    deadline, pause, seen = None, policy.first, progress()
    while True:
        try:
            return call()
        except errors as error:
            if deadline is None or progress() != seen:
                deadline, seen = now() + policy.seconds, progress()
            remaining = deadline - now()
            if not is_retryable(error) or remaining <= 0:
                raise
            # Half of a pause is random: clients that failed together do not retry together.
            wait = min(pause * random.uniform(0.5, 1.0), remaining)
            on_retry(error, wait)
        sleep(wait)
        pause = min(pause * 2, policy.longest)
