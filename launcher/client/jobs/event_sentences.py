"""Sentences for the event lines of a job that its owner should act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def sentence_of(name: str, fields: Mapping[str, Any]) -> str | None:
    """Return an event as a sentence; None for an event that stays a line of fields.

    >>> waits = {"waits_for": "algo-1,algo-2", "in_group": "data", "instance_type": "local",
    ...     "ended_group": "dnn", "minutes": 10, "dollars_per_hour": 0.4}
    >>> sentence_of("waiting_for_hosts", waits)
    'algo-1, algo-2 (data, local): still running 10 min after dnn; $0.40 an hour on SageMaker'
    """
    write = _SENTENCES.get(name)
    try:
        return write(fields) if write else None
    except (KeyError, TypeError, ValueError, AttributeError):  # such a line of the script's own
        return None


def _waiting_for_hosts(fields: Mapping[str, Any]) -> str:
    hosts = ", ".join(fields["waits_for"].split(","))
    minutes = int(fields["minutes"])
    since = f"{f'{minutes} min ' if minutes else ''}after {fields['ended_group']}"
    price = fields.get("dollars_per_hour")
    cost = "" if price is None else f"; ${float(price):.2f} an hour on SageMaker"
    return f"{hosts} ({fields['in_group']}, {fields['instance_type']}): still running {since}{cost}"


def _port_taken(fields: Mapping[str, Any]) -> str:
    return f"a port is in use: {fields['why']}; {fields['fix']}"


_SENTENCES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "waiting_for_hosts": _waiting_for_hosts,
    "port_taken": _port_taken,
}
