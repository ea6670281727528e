"""Two hosts connect, then one exits: observe the effect on the other.

The helper listens. The main host connects when it can, sends hello and receives it back. The
helper then ends at once with exit code 0. The main host connects until that fails, stays for a
while, and ends. If its answers arrive, a helper that ends well does not end the job.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

#: Above the ports that Launcher's own jobs use.
_WILDCARD_OFFSET, _MEETING_OFFSET = 40, 41
_HELLO = b"hello"
_TRY_SECONDS = 5.0
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class ProbeTimeouts:
    """Timeouts of the two hosts, in seconds.

    wait: for the other host; linger: that the main host continues after the helper has exited.
    """

    wait: float
    linger: float


def run_helper_host(host: str, timeouts: ProbeTimeouts) -> dict[str, object]:
    """Run the helper; its host ends as soon as this returns."""
    with ExitStack() as stack:
        wildcard = _bind_wildcard(stack)
        try:
            listener = stack.enter_context(
                socket.create_server((_own_address(host), _port(_MEETING_OFFSET)))
            )
            listener.settimeout(timeouts.wait)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(_TRY_SECONDS)
                connection.sendall(connection.recv(len(_HELLO)))
        except OSError as error:
            return {"bound_wildcard_port": wildcard, "met": False, "error": repr(error)}
    return {"bound_wildcard_port": wildcard, "met": True}


def run_main_host(host: str, other: str, timeouts: ProbeTimeouts) -> dict[str, object]:
    """Run the main host."""
    with ExitStack() as stack:
        wildcard = _bind_wildcard(stack)
        started = time.monotonic()
        met = _poll_until(lambda: _exchange_hello(other) is None, timeouts.wait)
        waited = time.monotonic() - started
    left = met and _poll_until(lambda: _exchange_hello(other) is not None, timeouts.wait)
    after = (
        {"connecting_gives": _exchange_hello(other), "resolves": _resolves(other)} if left else None
    )
    time.sleep(timeouts.linger)  # surviving this sleep is the answer
    return {
        "bound_wildcard_port": wildcard,
        "met": met,
        "seconds_until_met": round(waited, 1),
        "saw_helper_leave": left,
        "after_helper_left": after,
        "went_on_for_seconds": timeouts.linger,
    }


def _bind_wildcard(stack: ExitStack) -> bool:
    """Return True if 0.0.0.0 can be bound; hold it until the hosts connect, so that both try."""
    holder = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    try:
        holder.bind(("", _port(_WILDCARD_OFFSET)))
        holder.listen()
    except OSError:
        return False
    return True


def _exchange_hello(other: str) -> str | None:
    """Exchange hello with the other host; return None, or what went wrong."""
    try:
        address = (_address_of(other), _port(_MEETING_OFFSET))
        with socket.create_connection(address, _TRY_SECONDS) as connection:
            connection.sendall(_HELLO)
            return None if connection.recv(len(_HELLO)) == _HELLO else "no answer"
    except OSError as error:
        return type(error).__name__


def _poll_until(condition: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _resolves(host: str) -> bool:
    try:
        socket.gethostbyname(host)
    except OSError:
        return False
    return True


def _port(offset: int) -> int:
    """Return a port; a platform whose hosts share a network stack sets the job's port base."""
    return int(os.environ.get("LAUNCHER_PORT_BASE", 7770)) + offset


def _address_of(host: str) -> str:
    """Return the host's name, or the address that such a platform assigns to it."""
    addresses = json.loads(os.environ.get("LAUNCHER_HOST_ADDRESSES", "{}"))
    return str(addresses.get(host, host))


def _own_address(host: str) -> str:
    return _address_of(host) if "LAUNCHER_HOST_ADDRESSES" in os.environ else ""
