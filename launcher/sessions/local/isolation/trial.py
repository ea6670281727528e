"""Trial of isolation `network` with a host of no job; exits with 0 if the isolation works.

Run with `python -m`, in its own process, since a process cannot leave an outer network.
"""

from __future__ import annotations

import sys

from launcher.errors import PlatformError
from launcher.sessions.local.isolation import network, sandbox


def main() -> int:
    """Run the trial; return the exit code."""
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
