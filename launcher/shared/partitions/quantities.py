"""Bytes and seconds as people write and read them."""

from __future__ import annotations

import re

_BYTES = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_BYTES |= {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_NUMBER_AND_UNIT = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE]-?\d+)?)\s*([A-Za-zµ]*)\s*")


def parse_bytes(text: str) -> int:
    """Parse "40GiB", or a bare number. Raises ValueError."""
    found = _scaled(text, _BYTES)
    if found is None:
        raise ValueError(f"{text!r} is not a number of bytes")
    return round(found)


def parse_bandwidth(text: str) -> float:
    """Parse "12GiB/s" into bytes per second. Raises ValueError."""
    found = _scaled(text.removesuffix("/s"), _BYTES)
    if not found:
        raise ValueError(f"{text!r} is not a bandwidth")
    return found


def parse_seconds(text: str) -> float:
    """Parse "20us", or a bare number. Raises ValueError."""
    found = _scaled(text, _SECONDS)
    if found is None:
        raise ValueError(f"{text!r} is not a length of time")
    return found


def bytes_text(count: float) -> str:
    """Format bytes with a binary unit and three digits.

    >>> bytes_text(3 * 2**29)
    '1.50 GiB'
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if count >= _BYTES[unit]:
            return f"{_three_digits(count / _BYTES[unit])} {unit}"
    return f"{count:.0f} B"


def seconds_text(seconds: float) -> str:
    """Format seconds with a unit and three digits.

    >>> seconds_text(0.0123)
    '12.3 ms'
    """
    for unit in ("s", "ms"):
        if seconds >= _SECONDS[unit]:
            return f"{_three_digits(seconds / _SECONDS[unit])} {unit}"
    return f"{_three_digits(seconds / 1e-6)} µs" if seconds else "0"


def _scaled(text: str, units: dict[str, int] | dict[str, float]) -> float | None:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or match[2] not in units:
        return None
    return float(match[1]) * units[match[2]]


def _three_digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"
