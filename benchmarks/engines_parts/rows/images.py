"""JPEG files of 320 x 320 pixels: decoded, cropped and flipped at random."""

from __future__ import annotations

from collections.abc import Iterator

from data_service_parts.bench import Bench
from engines_parts.rows import preparing
from table.figures import Figure


def measure(bench: Bench) -> Iterator[Figure]:
    yield from preparing.measure(bench, "images")
