"""A trial of isolation `network` by a host of no job: `python -m` this module; 0 when it works.

In a process of its own, since there is no way back from an outer network.
"""

from __future__ import annotations

import sys

from launcher.errors import PlatformError
from launcher.sessions.local.isolation import network, sandbox


def main() -> int:
    try:
        network.enter()
        complaint = sandbox.try_host(network.plan_start)
    except (PlatformError, OSError) as error:
        complaint = str(error)
    if complaint is not None:
        sys.stderr.write(f"{complaint}\n")
    return int(complaint is not None)


if __name__ == "__main__":
    sys.exit(main())
