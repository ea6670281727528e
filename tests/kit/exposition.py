"""A strict reader of Prometheus' text form, after its specification.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-format-details
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? (\S+)")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf)|NaN")
_ESCAPES = {r"\\": "\\", r"\n": "\n", r"\"": '"'}

Labels = frozenset[tuple[str, str]]


@dataclass
class Family:
    """One metric: HELP and TYPE, and its samples by label."""

    help: str
    kind: str = ""
    samples: dict[Labels, float] = field(default_factory=dict)


def read_exposition(text: str) -> dict[str, Family]:
    """The families of a page; raises ValueError for whatever the format does not allow."""
    if not text.endswith("\n"):
        raise ValueError("the last line does not end")
    families: dict[str, Family] = {}
    latest = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            latest, _, words = line[7:].partition(" ")
            if latest in families:
                raise ValueError(f"two families {latest}")
            families[latest] = Family(words)
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            if name != latest or families[name].kind or families[name].samples:
                raise ValueError(f"TYPE out of place: {line}")
            if kind not in ("counter", "gauge"):
                raise ValueError(f"not a type that we use: {line}")
            if (kind == "counter") != name.endswith("_total"):
                raise ValueError(f"a counter ends in _total, and nothing else does: {line}")
            families[name].kind = kind
        else:
            _read_sample(line, latest, families)
    return families


def _read_sample(line: str, latest: str, families: dict[str, Family]) -> None:
    match = _SAMPLE.fullmatch(line)
    if match is None or match[1] != latest or not families[latest].kind:
        raise ValueError(f"not a sample of {latest}: {line!r}")
    if not _NUMBER.fullmatch(match[7]):
        raise ValueError(f"not a number: {line!r}")
    found = re.findall(_LABEL, match[2] or "")
    labels = frozenset((name, _unescaped(value)) for name, value in found)
    if len(labels) != len({name for name, _ in found}) or labels in families[latest].samples:
        raise ValueError(f"labels twice: {line!r}")
    families[latest].samples[labels] = float(match[7])


def _unescaped(value: str) -> str:
    return re.sub(r"\\.", lambda match: _ESCAPES[match[0]], value)
