"""An endpoint in a process of its own, asked over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from customer import Customer

from launcher.client.endpoint import serve

#: Tests poll faster than AWS lets anyone; what throttling does has tests of its own.
UNLIMITED = {
    name: float("inf") for name in ("DescribeLogStreams", "GetLogEvents", "FilterLogEvents")
}


@pytest.fixture(scope="session")
def customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    """A client of an endpoint that all tests share."""
    root = tmp_path_factory.mktemp("endpoint")
    with serve(root, rates=UNLIMITED, isolation="process") as endpoint:
        yield Customer(endpoint, root)
