"""An instance type with all its figures: hardware, peak speed and price, each with its source."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date

from launcher.client.catalogue.catalogue_files import packaged_table, read_table
from launcher.client.catalogue.instances import InstanceType, instance_types
from launcher.client.catalogue.prices import Price, PriceList

_HARDWARE = (
    ("vCPU", "vcpu", ""),
    ("memory", "memory_gib", "GiB"),
    ("accelerators", "accelerators", ""),
    ("accelerator memory", "accelerator_memory_gib", "GiB each"),
    ("NVMe", "nvme_gb", "GB"),
    ("network", "network_gbps", "Gbit/s"),
    ("network burst", "network_burst_gbps", "Gbit/s"),
)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of a type; value is None if no public source gives it, and so is its source."""

    name: str
    value: float | None
    unit: str
    source: str | None


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """An instance type with its accelerator and its price, which are None if unknown."""

    instance: InstanceType
    accelerator: AcceleratorKind | None
    price: Price | None

    def figures(self, today: date) -> Iterator[Figure]:
        """Yield its figures; those of accelerators only for types that have one."""
        for name, field, unit in _HARDWARE:
            if name != "accelerator memory" or self.instance.accelerators:
                yield _figure(name, getattr(self.instance, field), unit, self.instance.source)
        if self.instance.accelerators:
            kind = self.accelerator
            peaks = kind.peak_tflops if kind else dict.fromkeys(PRECISIONS)
            for precision, peak in peaks.items():
                source = kind.source if kind else None
                yield _figure(f"peak {precision}", peak, "TFLOP/s each", source)
            link = kind.link if kind else None
            unit = f"GB/s each way, {link}" if link else "GB/s"
            speed, source = (kind.link_gb_s, kind.link_source) if kind else (None, None)
            yield _figure("link", speed, unit, source)
        yield self._price(today)
        if self.price and self.price.spot:
            low, high = self.price.spot
            own = f"your own prices ({self.price.file})"
            yield Figure(name="spot price", value=low, unit=f"to {high:.10g} $/h", source=own)

    def _price(self, today: date) -> Figure:
        price = self.price
        if price is None:
            return _figure("price", None, "$/h", None)
        dated = f", price of {price.as_of}" if price.as_of else ""
        old = ", old" if price.is_old(today) else ""
        return Figure(
            name="price",
            value=price.per_hour,
            unit=f"$/h, {price.region or 'everywhere'}{dated}{old}",
            source=f"your own prices ({price.file})"
            if price.file
            else figure_source(price.source or "").text,
        )


@dataclass(frozen=True, kw_only=True)
class FigureCount:
    """The number of figures that are known, and of those that are not."""

    known: int
    unknown: int


def entries(prices: PriceList, region: str | None) -> tuple[CatalogueEntry, ...]:
    """Return every type of SageMaker in the catalogue, with its newest price for a region."""
    return tuple(
        entry(each, prices, region)
        for each in instance_types().values()
        if each.name.startswith("ml.")
    )


def entry(instance: InstanceType, prices: PriceList, region: str | None) -> CatalogueEntry:
    """Return one type with its accelerator and its newest price for a region."""
    return CatalogueEntry(
        instance=instance,
        accelerator=accelerator_kind(instance.accelerator_name),
        price=prices.find(instance.name, region),
    )


def count_figures(entries: Iterable[CatalogueEntry], today: date) -> FigureCount:
    """Count the figures of all entries."""
    known = [figure.value is not None for each in entries for figure in each.figures(today)]
    return FigureCount(known=sum(known), unknown=len(known) - sum(known))


def _figure(name: str, value: float | None, unit: str, source: str | None) -> Figure:
    text = str(figure_source(source)) if source and value is not None else None
    return Figure(name=name, value=value, unit=unit, source=text)


@dataclass(frozen=True, kw_only=True)
class FigureSource:
    """The origin of a figure.

    as_of: the date of the source, "2026-10-27", "2026-10" or "2026"; None if it has none.
    """

    key: str
    as_of: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({self.as_of or 'undated'})"


def figure_source(key: str) -> FigureSource:
    """Return the source with a key, or the key and a date of its own as "key@2026-11-26".

    A key that is not in sources.csv describes itself.
    """
    name, _, day = key.partition("@")
    found = _sources().get(name) or FigureSource(key=name, as_of=None, text=name)
    return replace(found, as_of=day) if day else found


@functools.cache
def _sources() -> Mapping[str, FigureSource]:
    return {
        row["key"]: FigureSource(key=row["key"], as_of=row["as_of"] or None, text=row["text"])
        for _, row in read_table(packaged_table("sources.csv"))
    }


#: Number formats with a column in accelerators.csv, which has peak speeds of makers' data sheets.
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8")


@dataclass(frozen=True, kw_only=True)
class AcceleratorKind:
    """One kind of accelerator.

    peak_tflops: 10^12 floating-point operations per second and accelerator, dense (without
        sparsity), by the number formats that it has; None where no public figure is known. The
        fastest unit for the format counts: tensor cores, where it has them.
    link, link_gb_s: what it reaches the others of its host by, such as "NVLink 3", and its 10^9
        bytes a second each way; None if unknown.
    source, link_source: keys of sources.csv.
    """

    name: str
    peak_tflops: Mapping[str, float | None]
    source: str
    link: str | None
    link_gb_s: float | None
    link_source: str | None


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
            link=row["link"] or None,
            link_gb_s=float(row["link_gb_s"]) if row["link_gb_s"] else None,
            link_source=row["link_source"] or None,
        )
        for _, row in read_table(packaged_table("accelerators.csv"))
    }
