"""AWS's regions, as the installed botocore lists them."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from launcher.errors import Problem, SpecError
from launcher.shared import did_you_mean


def check_regions(given: Iterable[str], where: str) -> None:
    """Raise SpecError for names that are no region of AWS: prices of another would stand for them.

    where: the argument or option that has the names.
    """
    problems = [
        Problem(
            what=f'"{region}" is not a region of AWS',
            where=where,
            fix=f"did you mean {near}?" if near else "write one such as us-east-1",
        )
        for region in given
        if region not in aws_regions()
        for near in (did_you_mean(region.lower(), aws_regions()),)
    ]
    if problems:
        raise SpecError(problems)


@functools.cache
def aws_regions() -> frozenset[str]:
    """Return the regions of all of AWS's partitions."""
    from botocore.loaders import create_loader

    partitions = create_loader().load_data("partitions")["partitions"]
    return frozenset(name for each in partitions for name in each["regions"])
