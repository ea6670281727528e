"""Texts of 800 words and more: split, hashed to numbers, padded to 1,024."""

from __future__ import annotations

from collections.abc import Iterator

from data_service_parts.bench import Bench
from engines_parts.rows import preparing
from table.figures import Figure


def measure(bench: Bench) -> Iterator[Figure]:
    yield from preparing.measure(bench, "tokens")
