"""Output of `launcher plan types`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

from launcher.client.catalogue import (
    CatalogueEntry,
    Figure,
    PriceUpdate,
    check_regions,
    count_figures,
    entries,
    entry,
    find,
    near,
    price_fix,
    price_list,
    price_sources,
    today,
    update_prices,
)
from launcher.client.cli.screen.verb_output import echo, print_json, print_message
from launcher.client.planning import CatalogueTypeUpdate, update_catalogue_types
from launcher.client.show import Note, Table
from launcher.errors import CloudError, PlatformError

_HEADER = ("TYPE", "vCPU", "GiB", "ACCELERATORS", "GiB EACH", "NVMe GB", "Gbit/s", "$/h", "PRICE")
_NOTE_COLUMN = 22
#: Columns that a narrow terminal has last.
_LEAST = ("PRICE", "NVMe GB", "Gbit/s", "GiB EACH")
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


def type_table(entries: Sequence[CatalogueEntry], region: str, today: date) -> Table:
    """Return a row for each type; an unknown figure is "?"."""
    rows = [_row(each, region, today) for each in entries]
    return Table(columns=_HEADER, rows=rows, numbers=_NUMERIC, least=_LEAST)


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
    doubts = [*["one copy"] * price.is_of_one_copy, *["old"] * price.is_old(today)]
    return " ".join([f"{origin}{elsewhere}", *([f"({', '.join(doubts)})"] if doubts else [])])


def figure_table(each: CatalogueEntry, today: date) -> Table:
    """Return a note for each figure of one type, below its name."""
    name = each.instance.accelerator_name
    title = f"{each.instance.name}{f', {name}' if name else ''}"
    return Table(title=title, notes=[*map(_figure_note, each.figures(today))])


def _figure_note(figure: Figure) -> Note:
    known = f"{_number(figure.value)} {figure.unit}".strip()
    value = "unknown" if figure.value is None else known
    return f"  {figure.name}", f"{value:<20}  {figure.source or ''}".rstrip()


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


def print_types(
    region: str, output: str, *, gpus: int | None, family: str | None, sort: str
) -> int:
    """Print the instance types with that many accelerators and of that family."""
    check_regions([region], "--region")
    day = today()
    found = chosen(entries(price_list(), region), gpus=gpus, family=family, sort=sort)
    if not found:
        raise PlatformError(
            "no instance type of the catalogue is like that; `launcher plan types` has them all"
        )
    count = count_figures(found, day)
    if output == "json":
        types = [plain_entry(each, day) for each in found]
        print_json({"types": types, "known": count.known, "unknown": count.unknown})
        return 0
    echo(type_table(found, region, day))
    priced = sum(each.price is not None for each in found)
    print_message(
        f"\n{len(found)} types; {count.known} figures are known and {count.unknown} unknown; "
        f"{priced} have a price, {len(found) - priced} have none. `launcher plan types TYPE` has "
        "the source of each figure."
    )
    prices = (each.price for each in found if each.price)
    for source in price_sources(prices, region, day):
        print_message(f"Prices: {source}.")
    return 0


def print_type(name: str, region: str, output: str) -> int:
    """Print the figures of a type, with their sources."""
    instance = find(name) or find(f"ml.{name}")
    if instance is None:
        nearest = near(name)
        hint = f"did you mean {nearest[0]}?" if nearest else "`launcher plan types` has them all"
        raise PlatformError(f"instance type {name!r} is not in the catalogue; {hint}")
    check_regions([region], "--region")
    day = today()
    shown = entry(instance, price_list(), region)
    if output == "json":
        print_json(plain_entry(shown, day))
        return 0
    echo(figure_table(shown, day), note_column=_NOTE_COLUMN)
    count = count_figures([shown], day)
    print_message(f"\n{count.known} figures are known and {count.unknown} unknown.")
    if shown.price is None:
        fix = price_fix(instance.name)
        print_message(f"For a price, run `launcher plan types --update`, or {fix}")
    return 0


def print_update(regions: tuple[str, ...], base_url: str | None, output: str) -> int:
    """Update prices from AWS's price list, and types from EC2, and print what is new."""
    print_message("Reading AWS's price list (hundreds of MB in some regions) ...")
    prices = update_prices(regions, base_url=base_url)
    types, reason = _update_types(regions[0])
    if output == "json":
        regions_json = [{**asdict(each), "file": str(each.file)} for each in prices]
        types_json = {**asdict(types), "file": str(types.file)} if types else None
        print_json({"prices": regions_json, "types": types_json, "no_types_because": reason})
        return 0
    for each in prices:
        _print_prices(each)
    if types:
        new = f", {len(types.new)} of them new ({', '.join(types.new)})" if types.new else ""
        echo(f"{types.count} instance types of {types.region}, from EC2 today{new}")
    else:
        print_message(f"Instance types stay as they are: {reason}")
    return 0


def _print_prices(each: PriceUpdate) -> None:
    count, published = len(each.prices.per_hour), each.prices.published
    echo(f"{count} training prices of {each.region}, published {published}: {each.file}")
    if each.prices.storage is not None:
        echo(f"and of volumes: ${each.prices.storage:g} per GB and month")
    if each.prices.ambiguous:
        print_message(f"Several prices, so none is taken: {', '.join(each.prices.ambiguous)}")
    if each.lost:
        print_message(f"No price any more: {', '.join(each.lost)}")


def _update_types(region: str) -> tuple[CatalogueTypeUpdate | None, str | None]:
    try:
        return update_catalogue_types(region, today()), None
    except CloudError as error:
        return None, str(error).splitlines()[0].removeprefix("error: ")
