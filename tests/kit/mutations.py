"""Bytes that were right once: flipped, cut, doubled, spliced, or with numbers of another size."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

#: Where sizes and signs turn over.
_EDGES = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40]
_EDGES += [(1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def mutated(coin: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """One to four mutations of `data`; pieces of the others get into it."""
    for _ in range(coin.randint(1, 4)):
        data = coin.choice(_MUTATIONS)(coin, data, others)
    return data


def _flip(coin: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    damaged = bytearray(data or b"\0")
    damaged[coin.randrange(len(damaged))] ^= 1 << coin.randrange(8)
    return bytes(damaged)


def _cut(coin: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    first, last = _piece(coin, data)
    return data[:first] if coin.random() < 0.5 else data[:first] + data[last:]


def _double(coin: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    first, last = _piece(coin, data)
    return data[:last] + data[first:]


def _splice(coin: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = coin.choice(others)
    first, last = _piece(coin, other)
    place = coin.randint(0, len(data))
    return data[:place] + other[first:last] + data[place + coin.choice((0, last - first)) :]


def _write_a_number(coin: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    number = struct.pack("<Q", coin.choice(_EDGES))[: coin.choice((1, 2, 4, 8))]
    place = coin.choice((coin.randint(0, 24), coin.randint(0, len(data))))
    return data[:place] + number + data[place + len(number) :]


def _write_digits(coin: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Another number where a text has one."""
    places = [place for place, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if not places:
        return data
    place = coin.choice(places)
    words = (str(coin.choice(_EDGES)), "-1", "1e999", "null", "[]", '"0"', "true", "{}")
    return data[:place] + coin.choice(words).encode() + data[place + 1 :]


def _piece(coin: random.Random, data: bytes) -> tuple[int, int]:
    first = coin.randint(0, len(data))
    return first, coin.randint(first, min(len(data), first + coin.choice((1, 8, 64, 4096))))


_MUTATIONS = (_flip, _cut, _double, _splice, _write_a_number, _write_digits)
