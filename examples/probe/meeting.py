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
from collections.abc import Callable
from contextlib import closing
from typing import Any

#: Above the ports of Launcher's own; hosts that share a network stack have a base for each job.
WILDCARD_PORT = int(os.environ.get("LAUNCHER_PORT_BASE", "7770")) + 40
MEETING_PORT = WILDCARD_PORT + 1
#: Addresses of hosts whose names do not resolve.
ADDRESSES = json.loads(os.environ.get("LAUNCHER_HOST_ADDRESSES", "{}"))
HELLO = b"hello"


def run(host: str, other: str, *, is_main: bool, wait: float, linger: float) -> dict[str, Any]:
    """What one of the two hosts saw; seconds: `wait` for the other host, `linger` without it."""
    with closing(socket.socket()) as wildcard:  # held until they have met, so that both try
        bound = binds(wildcard)
        if not is_main:
            return {"bound": bound, "met": answer_hello(host, wait)}
        met = poll(lambda: hello(other) is None, wait)
    left = met and poll(lambda: hello(other) is not None, wait)
    time.sleep(linger)  # that this host survives it is the answer
    return {
        "bound": bound,
        "met": met,
        "saw_helper_leave": left,
        "main_host_went_on": True,
        "connecting_gives": hello(other),
        "name_resolves": resolve(other) is not None,
    }


def binds(wildcard: socket.socket) -> bool:
    try:
        wildcard.bind(("", WILDCARD_PORT))
        wildcard.listen()
    except OSError:
        return False
    return True


def answer_hello(host: str, wait: float) -> bool | str:
    try:
        with socket.create_server((ADDRESSES.get(host, ""), MEETING_PORT)) as listener:
            listener.settimeout(wait)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(5)
                connection.sendall(connection.recv(len(HELLO)))
    except OSError as error:
        return repr(error)
    return True


def hello(other: str) -> str | None:
    """Exchange hello with the other host; None, or what went wrong."""
    try:
        address = (ADDRESSES.get(other, other), MEETING_PORT)
        with socket.create_connection(address, timeout=5) as connection:
            connection.sendall(HELLO)
            return None if connection.recv(len(HELLO)) == HELLO else "no answer"
    except OSError as error:
        return type(error).__name__


def poll(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


def resolve(host: str) -> str | None:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return None
