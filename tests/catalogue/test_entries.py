"""Entries of the catalogue: every figure with its source, or unknown."""

from __future__ import annotations

from datetime import date

from launcher.client import catalogue
from launcher.client.catalogue import (
    PriceList,
    accelerator_kinds,
    count_figures,
    entries,
    entry,
    figure_source,
)

TODAY = date(2026, 11, 26)


def figures_of(name: str) -> dict[str, tuple[float | None, str, str | None]]:
    instance = catalogue.find(name)
    assert instance is not None
    shown = entry(instance, PriceList(), "us-east-1").figures(TODAY)
    return {each.name: (each.value, each.unit, each.source) for each in shown}


def test_every_known_figure_has_a_source_and_no_unknown_one_has() -> None:
    for each in entries(PriceList(), "us-east-1"):
        for figure in each.figures(TODAY):
            assert (figure.value is None) == (figure.source is None), (each.instance.name, figure)


def test_the_source_of_a_figure_has_a_date() -> None:
    p4d = figures_of("ml.p4d.24xlarge")

    assert p4d["vCPU"][2] == "EC2's DescribeInstanceTypes, as moto 5.2.5 has recorded it (2026-10)"
    assert p4d["peak bf16"] == (
        312,
        "TFLOP/s each",
        "19.49, 155.94 and 311.87 of https://hmc-tech.com/gpu/nvidia-l4-vs-nvidia-a100-40gb, "
        "rounded (2020)",
    )


def test_a_price_has_its_month_and_its_source() -> None:
    value, unit, source = figures_of("ml.p4d.24xlarge")["price"]

    assert (value, unit) == (25.251286, "$/h, us-east-1, price of 2026-06, old")
    assert source is not None
    assert "AWS's price list" in source


def test_a_format_that_an_accelerator_lacks_is_no_unknown_figure() -> None:
    assert "peak fp8" not in figures_of("ml.p4d.24xlarge")
    assert figures_of("ml.p6-b200.48xlarge")["peak fp32"][0] is None
    assert figures_of("ml.p2.xlarge")["peak fp32"][0] is None
    assert figures_of("ml.g5.xlarge")["peak fp32"][0] is None  # copies of its data sheet differ


def test_a_type_without_accelerators_has_no_figures_of_them() -> None:
    assert set(figures_of("ml.c5.xlarge")) == {
        "vCPU",
        "memory",
        "accelerators",
        "NVMe",
        "network",
        "network burst",
        "price",
    }


def test_figures_are_counted() -> None:
    c5, p2 = catalogue.find("ml.c5.xlarge"), catalogue.find("ml.p2.xlarge")
    assert c5 is not None
    assert p2 is not None
    counted = count_figures([entry(each, PriceList(), None) for each in (c5, p2)], TODAY)

    assert (counted.known, counted.unknown) == (7 + 5, 2 + 5 + 2)


def test_every_cpu_speed_is_that_of_a_family_has_its_range_and_a_dated_source() -> None:
    families = {name.split(".")[-2] for name in catalogue.instance_types() if "." in name}
    for family, each in catalogue.cpu_speeds().items():
        assert family in families
        assert each.low <= each.mean <= each.high
        assert figure_source(each.source).as_of is not None
    assert catalogue.cpu_speeds()["c5"].mean == 1


def test_every_accelerator_is_that_of_a_type_and_its_peaks_have_a_source() -> None:
    used = {each.accelerator_name for each in catalogue.instance_types().values()}
    for name, kind in accelerator_kinds().items():
        peaks = [peak for peak in kind.peak_tflops.values() if peak is not None]
        assert name in used
        assert figure_source(kind.source).as_of is not None
        assert all(peak > 0 for peak in peaks), name
        assert not kind.link_source or figure_source(kind.link_source).as_of is not None
        assert peaks == sorted(peaks), f"a lower precision of {name} is slower"
