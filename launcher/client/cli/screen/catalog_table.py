"""Instance types of the catalogue as lines of text, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

from launcher.client.catalogue import CatalogueEntry, Figure
from launcher.client.jobs import aligned

_HEADER = ("TYPE", "vCPU", "GiB", "ACCELERATORS", "GiB EACH", "NVMe GB", "Gbit/s", "$/h", "PRICE")
_NUMERIC = frozenset({"vCPU", "GiB", "GiB EACH", "NVMe GB", "Gbit/s", "$/h"})

#: Keys of `launcher plan types --sort`: the figure to sort by.
SORT_KEYS: dict[str, Callable[[CatalogueEntry], float | None]] = {
    "name": lambda each: 0,  # as in the catalogue: by family, then by size
    "price": lambda each: each.price.per_hour if each.price else None,
    "vcpu": lambda each: each.instance.vcpu,
    "memory": lambda each: each.instance.memory_gib,
    "gpus": lambda each: each.instance.accelerators,
    "network": lambda each: each.instance.network_gbps,
}


def chosen(
    entries: Iterable[CatalogueEntry], *, gpus: int | None, family: str | None, sort: str
) -> list[CatalogueEntry]:
    """Return the entries with that many accelerators and of that family, sorted by SORT_KEYS."""
    kept = [
        each
        for each in entries
        if gpus in (None, each.instance.accelerators)
        and (family is None or each.instance.name.split(".")[1] == family.removeprefix("ml."))
    ]
    key = SORT_KEYS[sort]
    return sorted(kept, key=lambda each: (key(each) is None, key(each) or 0))


def type_table(entries: Sequence[CatalogueEntry], region: str, today: date) -> list[str]:
    """Return the lines of the table; an unknown figure is "?"."""
    return aligned([_HEADER, *(_row(each, region, today) for each in entries)], _NUMERIC)


def _row(each: CatalogueEntry, region: str, today: date) -> tuple[str, ...]:
    instance = each.instance
    accelerators = f"{instance.accelerators} x {instance.accelerator_name}"
    return (
        instance.name,
        _number(instance.vcpu),
        _number(instance.memory_gib),
        accelerators if instance.accelerators else "-",
        _number(instance.accelerator_memory_gib) if instance.accelerators else "-",
        _number(instance.nvme_gb),
        _number(instance.network_gbps),
        _number(each.price.per_hour if each.price else None),
        _price_note(each, region, today),
    )


def _price_note(each: CatalogueEntry, region: str, today: date) -> str:
    price = each.price
    if price is None:
        return "unknown"
    elsewhere = f" {price.region}" if price.region not in (None, region) else ""
    origin = "your own" if price.file else price.as_of or ""
    return f"{origin}{elsewhere}{' (old)' if price.is_old(today) else ''}"


def figure_lines(each: CatalogueEntry, today: date) -> list[str]:
    """Return a title and a line for each figure of one type."""
    name = each.instance.accelerator_name
    title = f"{each.instance.name}{f', {name}' if name else ''}"
    return [title, *map(_figure_line, each.figures(today))]


def _figure_line(figure: Figure) -> str:
    known = f"{_number(figure.value)} {figure.unit}".strip()
    value = "unknown" if figure.value is None else known
    return f"  {figure.name:<19} {value:<20}  {figure.source or ''}".rstrip()


def plain_entry(each: CatalogueEntry, today: date) -> dict[str, Any]:
    """Return one type as `-o json` prints it."""
    return {
        "instance_type": each.instance.name,
        "accelerator": each.instance.accelerator_name,
        "figures": [vars(figure) for figure in each.figures(today)],
        "price_as_of": each.price.as_of if each.price else None,
        "price_region": each.price.region if each.price else None,
        "price_is_old": each.price.is_old(today) if each.price else None,
    }


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.10g}"
