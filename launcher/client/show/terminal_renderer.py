"""Columns of text, each as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], numeric: Collection[str] = ()) -> list[str]:
    """Return each row as a line, its cells padded to the widths of their columns.

    numeric: cells of the first row whose columns are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:>{width}}" if name in numeric else f"{cell:<{width}}"
            for name, cell, width in zip(rows[0], row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
