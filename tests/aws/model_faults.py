"""Faults of a sequence of calls: which service fails how, drawn once, from one seed."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fault_kinds import KINDS, S3, Changed, Refusal
from front import Page

#: The operations of each service.
SERVICES = {
    "create": ("CreateTrainingJob",),
    "describe": ("DescribeTrainingJob", "ListTrainingJobs"),
    "logs": ("DescribeLogStreams", "GetLogEvents"),
    "s3": S3,
    "sts": ("GetCallerIdentity",),
}


@dataclass(frozen=True)
class Drip:
    """Send the head of an answer, and then a byte now and then."""

    seconds: float = 20.0

    def respond(self, handler: Any, call: Any) -> None:
        _, _, content = handler.pass_on(call)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content) + 1000))
        handler.end_headers()
        until = time.monotonic() + self.seconds
        try:
            while time.monotonic() < until:
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.05)  # the fault itself
        except OSError:
            pass
        handler.reset()


@dataclass(frozen=True)
class Huge:
    """Send an answer that has no end, as far as anyone reads it."""

    most: int = 80 << 20

    def respond(self, handler: Any, call: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(self.most))
        handler.end_headers()
        try:
            for _ in range(self.most >> 16):
                handler.wfile.write(b" " * (1 << 16))
        except OSError:
            pass
        handler.reset()


def _contradicting(_call: Any, answer: Any) -> Any:
    status, headers, content = answer
    if status >= 300:
        return answer
    fields = json.loads(content)
    fields.update(TrainingJobStatus="Completed", SecondaryStatus="Training")
    return status, headers, json.dumps(fields).encode()


NOT_FOUND = {
    "DescribeTrainingJob": Refusal("ValidationException", "Requested resource not found.", ("", 0)),
    "GetLogEvents": Refusal(
        "ResourceNotFoundException", "The specified log stream does not exist.", ("", 0)
    ),
    "DescribeLogStreams": Refusal(
        "ResourceNotFoundException", "The specified log group does not exist.", ("", 0)
    ),
}
DENIED = Refusal("AccessDeniedException", "not authorized", ("AccessDenied", 403), 400)
EXPIRED = KINDS["credentials expired"].fault


def blips(operation: str) -> dict[str, Any]:
    """The faults of which one, at one call, changes no outcome."""
    found = {
        name: kind.fault for name, kind in KINDS.items() if kind.fits(operation) and kind.is_blip
    }
    found |= {"drip": Drip(), "huge": Huge()}
    if operation == "DescribeTrainingJob":
        found |= {"contradiction": Changed(_contradicting)}
    if operation == "GetLogEvents":
        found |= {"vanished": NOT_FOUND[operation]}
    return found


def outages(service: str, operation: str) -> dict[str, Any]:
    """The faults that stay for a whole sequence."""
    found: dict[str, Any] = {
        "denied": DENIED,
        "expired": EXPIRED,
        "unavailable": Page("busy", 503),
        "drip": Drip(),
    }
    if operation in NOT_FOUND:
        found["vanished"] = NOT_FOUND[operation]
    return found


#: Faults after which lines are others, and nothing is lost.
_OF_LINES = ("events twice",)


@dataclass
class FaultPlan:
    """The faults of one client: of each service a share of the calls meets a blip, or all fail.

    may_lose_state: True if services other than logs may fail for the whole sequence, after which a
    client may give up with exit code 4. is_calm: no faults at all.
    """

    seed: int
    may_lose_state: bool = False
    is_calm: bool = False
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()
        self._in_a_row: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        shares = (0.0,) if self.is_calm else (0.0, 0.1, 0.3)
        self._share = {service: self._random.choice(shares) for service in SERVICES}
        self._outage: dict[str, tuple[int, str]] = {}
        for service, operations in SERVICES.items():
            is_out = self._random.random() < (0.3 if service == "logs" else 0.15)
            kinds = sorted(outages(service, operations[0]))
            first, kind = self._random.randrange(4), self._random.choice(kinds)
            if is_out and not self.is_calm and (service == "logs" or self.may_lose_state):
                self._outage[service] = (first, kind)

    @property
    def changes_lines(self) -> bool:
        """True if a client may show other lines than were printed."""
        return any(each.partition(": ")[2] in _OF_LINES for each in self.told)

    @property
    def loses_logs(self) -> bool:
        """True if logs cannot be read for the whole sequence."""
        return "logs" in self._outage

    def draw(self, operation: str) -> Any:
        """Return the fault that the next call of an operation meets; None for none."""
        service = next((name for name, each in SERVICES.items() if operation in each), None)
        if service is None:
            return None
        with self._lock:
            self._calls[service] += 1
            first, kind = self._outage.get(service, (0, ""))
            if kind and self._calls[service] > first:
                return self._met(operation, kind, outages(service, operation)[kind])
            if self._random.random() >= self._share[service] or self._in_a_row[operation] >= 2:
                self._in_a_row[operation] = 0
                return None
            self._in_a_row[operation] += 1
            kinds = blips(operation)
            kind = self._random.choice(sorted(kinds))
            return self._met(operation, kind, kinds[kind])

    def _met(self, operation: str, kind: str, fault: Any) -> Any:
        self.told.append(f"{operation}: {kind}")
        return fault
