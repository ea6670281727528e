"""Trial of isolation `network` with a host without a job; exits with 0 if the isolation works.

Run with `python -m`, in its own process, since a process cannot leave an outer network.
"""

from __future__ import annotations

import sys

from launcher.client.sessions.local.isolation import network_isolation, sandbox_isolation
from launcher.errors import PlatformError


def main() -> int:
    """Run the trial; return the exit code."""
    try:
        network_isolation.enter()
        error_text = sandbox_isolation.try_host(network_isolation.plan_start)
    except (PlatformError, OSError) as error:
        error_text = str(error)
    if error_text is not None:
        sys.stderr.write(f"{error_text}\n")
    return int(error_text is not None)


if __name__ == "__main__":
    sys.exit(main())
