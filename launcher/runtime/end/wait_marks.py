"""Marks in the stack of a thread that waits for data, set by the code that waits.

A rank inspects its stack as frames, its host as faulthandler's text, which names only files and
functions. So a mark is a call: what runs inside one of these functions is a wait for other hosts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def wait_for_data(
    call: Callable[Arguments, Answer], /, *arguments: Arguments.args, **options: Arguments.kwargs
) -> Answer:
    """Make a call that waits for a batch, or for room to ask for one."""
    return call(*arguments, **options)


def wait_for_first_contact(
    call: Callable[Arguments, Answer], /, *arguments: Arguments.args, **options: Arguments.kwargs
) -> Answer:
    """Make a call that may take as long as the start times of hosts differ."""
    return call(*arguments, **options)
