"""Faults of an answer: what networks, proxies and other services make of what AWS has said."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from front import Cut, Hold, Page, Refuse

Answer = tuple[int, list[tuple[str, str]], bytes]

#: The field of each operation that is taken, emptied or replaced; of S3 it is the ETag.
FIELDS = {
    "CreateTrainingJob": "TrainingJobArn",
    "DescribeTrainingJob": "TrainingJobStatus",
    "ListTrainingJobs": "TrainingJobSummaries",
    "StopTrainingJob": "nothing",
    "DescribeLogStreams": "logStreams",
    "GetLogEvents": "events",
    "GetCallerIdentity": "Arn",
}
TOKENS = {
    "ListTrainingJobs": "NextToken",
    "DescribeLogStreams": "nextToken",
    "GetLogEvents": "nextForwardToken",
}
HTML = "<html><body>Sign in to the hotel</body></html>"
S3 = ("HEAD", "PUT", "COPY", "GET")


@dataclass(frozen=True)
class Changed:
    """Pass the call on, and change what comes back."""

    change: Callable[[Any, Answer], Answer]

    def respond(self, handler: Any, call: Any) -> None:
        handler.answer(*self.change(call, handler.pass_on(call)))


@dataclass(frozen=True)
class CutBody:
    """Announce the whole answer, and reset the connection when half of it is sent."""

    def respond(self, handler: Any, call: Any) -> None:
        status, headers, content = handler.pass_on(call)
        handler.send_response(status)
        for name, value in headers:
            if name.lower() in ("content-type", "etag"):
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content) + 10))
        handler.end_headers()
        handler.wfile.write(content[: len(content) // 2])
        handler.wfile.flush()
        handler.reset()


@dataclass(frozen=True)
class Slow:
    """Answer after a pause."""

    def respond(self, handler: Any, call: Any) -> None:
        answer = handler.pass_on(call)
        time.sleep(0.2)  # the fault itself
        handler.answer(*answer)


@dataclass(frozen=True)
class Refusal:
    """Refuse as the service of the operation does."""

    code: str
    message: str
    of_s3: tuple[str, int]
    status: int = 400

    def respond(self, handler: Any, call: Any) -> None:
        code, status = (self.code, self.status)
        if call.operation in S3:
            code, status = self.of_s3
        handler.answer_refusal(Refuse(code, self.message, status))


def _json(change: Callable[[dict[str, Any], str], None]) -> Callable[[Any, Answer], Answer]:
    """Change a JSON answer's fields; other answers by `_markup`."""

    def changed(call: Any, answer: Answer) -> Answer:
        status, headers, content = answer
        try:
            fields = json.loads(content)
        except ValueError:
            return _markup(change.__name__, answer)
        if status < 300 and isinstance(fields, dict):
            change(fields, call.operation)
        return status, headers, json.dumps(fields).encode()

    return changed


def _markup(name: str, answer: Answer) -> Answer:
    """Take, empty or replace the ARN or ETag of an answer of S3 or STS."""
    status, headers, content = answer
    new = {"removed": None, "null": "", "of_another_type": "17"}.get(name)
    if name not in ("removed", "null", "of_another_type"):
        return answer
    kept = [(key, value) for key, value in headers if key.lower() not in ("etag", *_CHECKSUMS)]
    if new is not None and len(kept) < len(headers):
        kept.append(("ETag", f'"{new}"' if new else ""))
    text = b"" if new is None else rb"<\1>" + new.encode() + rb"</\1>"
    return status, kept, re.sub(rb"<(Arn|ETag)>[^<]*</\1>", text, content)


_CHECKSUMS = ("x-amz-checksum-sha256", "x-amz-checksum-crc32")


def removed(fields: dict[str, Any], operation: str) -> None:
    fields.pop(FIELDS.get(operation, ""), None)


def null(fields: dict[str, Any], operation: str) -> None:
    fields[FIELDS.get(operation, "")] = None


def of_another_type(fields: dict[str, Any], operation: str) -> None:
    value = fields.get(FIELDS.get(operation, ""))
    fields[FIELDS.get(operation, "")] = [17] if isinstance(value, str) else "seventeen"


def ahead(fields: dict[str, Any], operation: str) -> None:
    """All times are a day ahead."""
    for name, value in fields.items():
        if name.endswith("Time") and isinstance(value, int | float):
            fields[name] = value + 86_400
        for each in value if isinstance(value, list) else ():
            if isinstance(each, dict) and isinstance(each.get("timestamp"), int):
                each["timestamp"] += 86_400_000
            if isinstance(each, dict):
                ahead(each, operation)


def repeated(fields: dict[str, Any], operation: str) -> None:
    fields[TOKENS[operation]] = "again"


_COUNT = itertools.count()


def endless(fields: dict[str, Any], operation: str) -> None:
    fields[TOKENS[operation]] = f"token-{next(_COUNT)}"


def twice(fields: dict[str, Any], operation: str) -> None:
    fields["events"] = [event for event in fields.get("events", ()) for _ in range(2)]


def undated(fields: dict[str, Any], operation: str) -> None:
    for event in fields.get("events", ()):
        event.pop("timestamp", None)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of fault. among: the operations that may have it, None for all.

    is_blip: when it happens once, the verb does what it is to do all the same.
    """

    fault: Any
    is_blip: bool = True
    among: tuple[str, ...] | None = None

    def fits(self, operation: str) -> bool:
        return self.among is None or operation in self.among


KINDS = {
    "error 500": Kind(fault=Refusal("InternalFailure", "no", ("InternalError", 500), 500)),
    "error 503": Kind(fault=Page(HTML, 503)),
    "throttled": Kind(fault=Refusal("ThrottlingException", "Rate exceeded", ("SlowDown", 503))),
    "reset": Kind(fault=Cut(after=False)),
    "reset after it was done": Kind(fault=Cut(after=True)),
    "cut body": Kind(fault=CutBody()),
    "slow": Kind(fault=Slow()),
    "silent": Kind(fault=Hold()),
    "HTML with 200": Kind(fault=Page(HTML)),
    "HTML with 403": Kind(fault=Page(HTML, 403), is_blip=False),
    "empty body": Kind(fault=Page("")),
    "empty JSON": Kind(fault=Page("{}")),
    "a JSON list": Kind(fault=Page("[[]]")),
    "deep JSON": Kind(fault=Page('{"a":' * 9_000)),
    "field removed": Kind(fault=Changed(_json(removed))),
    "field null": Kind(fault=Changed(_json(null))),
    "field of another type": Kind(fault=Changed(_json(of_another_type))),
    "times ahead": Kind(
        fault=Changed(_json(ahead)),
        among=("DescribeTrainingJob", "ListTrainingJobs", "GetLogEvents"),
    ),
    "token repeated": Kind(fault=Changed(_json(repeated)), is_blip=False, among=tuple(TOKENS)),
    "token endless": Kind(fault=Changed(_json(endless)), is_blip=False, among=tuple(TOKENS)),
    "events twice": Kind(fault=Changed(_json(twice)), among=("GetLogEvents",)),
    "events undated": Kind(fault=Changed(_json(undated)), among=("GetLogEvents",)),
    "credentials expired": Kind(
        fault=Refusal("ExpiredTokenException", "expired", ("ExpiredToken", 400)), is_blip=False
    ),
    "clock wrong": Kind(
        fault=Refusal(
            "RequestTimeTooSkewed", "too far from now", ("RequestTimeTooSkewed", 403), 403
        ),
        is_blip=False,
    ),
}
