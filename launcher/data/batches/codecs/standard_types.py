"""Codecs for the standard library's types: dates, sets, paths, exact numbers, mappings."""

from __future__ import annotations

import types
import uuid
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

from launcher.data.batches.codecs.codec_registry import Codec, Content
from launcher.errors import DataError

#: What a defaultdict may call for a missing key: its name is sent.
_FACTORIES: dict[str, Callable[[], object]] = {
    kind.__name__: kind for kind in (bool, bytes, dict, float, int, list, set, str, tuple)
}

#: Classes that hold values of any type, which become tensors or arrays as those of a dict do.
_CONTAINERS = (
    *(Counter, OrderedDict, UserDict, defaultdict, deque),
    *(types.MappingProxyType, types.SimpleNamespace),
)


def shipped() -> Iterator[Codec]:
    """Yield the codecs."""
    for kind, encode, decode in _TYPES:
        yield Codec(
            kind=kind,
            name=f"{kind.__module__}.{kind.__qualname__}",
            encode=encode,
            decode=decode,
            is_container=kind in _CONTAINERS,
        )


def _zone(zone: object) -> object:
    """Return the content of a time zone; others than the standard library's are refused."""
    if zone is None or type(zone) in (timezone, ZoneInfo):
        return zone
    raise DataError(
        f"a batch holds a time in the zone {zone!r}, a {type(zone).__name__}: convert it to UTC "
        "or to a zoneinfo.ZoneInfo"
    )


def _zone_key(zone: ZoneInfo) -> str:
    if zone.key is None:
        raise DataError(f"a batch holds the time zone {zone!r}, which has no key to be sent by")
    return zone.key


def _factory_name(values: defaultdict[Content, Any]) -> str | None:
    factory = values.default_factory
    if factory is None:
        return None
    for name, known in _FACTORIES.items():
        if factory is known:
            return name
    raise DataError(
        f"a batch holds a defaultdict of {factory!r}, a function that cannot be sent: make it a "
        f"dict, or a defaultdict of one of {sorted(_FACTORIES)}"
    )


_TYPES: tuple[tuple[type, Callable[[Content], object], Callable[[Content], object]], ...] = (
    (date, date.isoformat, date.fromisoformat),
    (
        datetime,
        lambda at: [at.replace(tzinfo=None, fold=0).isoformat(), at.fold, _zone(at.tzinfo)],
        lambda content: datetime.fromisoformat(content[0]).replace(
            fold=content[1], tzinfo=content[2]
        ),
    ),
    (
        time,
        lambda at: [at.replace(tzinfo=None, fold=0).isoformat(), at.fold, _zone(at.tzinfo)],
        lambda content: time.fromisoformat(content[0]).replace(fold=content[1], tzinfo=content[2]),
    ),
    (
        timedelta,
        lambda span: [span.days, span.seconds, span.microseconds],
        lambda content: timedelta(*content),
    ),
    (timezone, lambda zone: list(zone.__getinitargs__()), lambda content: timezone(*content)),
    (ZoneInfo, _zone_key, ZoneInfo),
    (Decimal, str, Decimal),
    (
        Fraction,
        lambda ratio: [ratio.numerator, ratio.denominator],
        lambda content: Fraction(*content),
    ),
    (uuid.UUID, lambda name: name.bytes, lambda content: uuid.UUID(bytes=content)),
    (PosixPath, str, PosixPath),
    (PurePosixPath, str, PurePosixPath),
    (set, list, set),
    (frozenset, list, frozenset),
    (bytearray, bytes, bytearray),
    (range, lambda span: [span.start, span.stop, span.step], lambda content: range(*content)),
    (slice, lambda span: [span.start, span.stop, span.step], lambda content: slice(*content)),
    (deque, lambda values: [list(values), values.maxlen], lambda content: deque(*content)),
    (OrderedDict, dict, OrderedDict),
    (Counter, dict, lambda content: Counter(content)),
    (UserDict, lambda values: values.data, UserDict),
    (types.MappingProxyType, dict, types.MappingProxyType),
    (types.SimpleNamespace, vars, lambda content: types.SimpleNamespace(**content)),
    (
        defaultdict,
        lambda values: [_factory_name(values), dict(values)],
        lambda content: defaultdict(_FACTORIES.get(content[0]), content[1]),
    ),
)
