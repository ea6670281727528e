"""The peak speeds of accelerators, from their makers' data sheets (accelerators.csv)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.client.catalogue.catalogue_files import packaged_table, read_table

#: Number formats with a column in accelerators.csv.
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8")


@dataclass(frozen=True, kw_only=True)
class AcceleratorKind:
    """One kind of accelerator.

    peak_tflops: 10^12 floating-point operations per second and accelerator, dense (without
        sparsity), by the number formats that it has; None where no public figure is known. The
        fastest unit for the format counts: tensor cores, where it has them.
    source: a key of sources.csv.
    """

    name: str
    peak_tflops: Mapping[str, float | None]
    source: str


def accelerator_kind(name: str | None) -> AcceleratorKind | None:
    """Return the accelerator with exactly that name (such as "NVIDIA A100"), or None.

    >>> accelerator_kind("NVIDIA A100").peak_tflops["bf16"]
    312.0
    """
    return accelerator_kinds().get(name or "")


@functools.cache
def accelerator_kinds() -> Mapping[str, AcceleratorKind]:
    """Return every accelerator in the table, by name."""
    return {
        row["accelerator_name"]: AcceleratorKind(
            name=row["accelerator_name"],
            peak_tflops={
                each: float(row[each]) if row[each] else None
                for each in PRECISIONS
                if row[each] != "-"
            },
            source=row["source"],
        )
        for _, row in read_table(packaged_table("accelerators.csv"))
    }
