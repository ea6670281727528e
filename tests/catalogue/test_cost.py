"""Estimates: price times instances times hours, and what is unknown stays unknown."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from launcher.client.catalogue import (
    Price,
    PriceList,
    dollars_text,
    estimate,
    spot_saving,
    volume_gb,
)

DAY = date(2026, 11, 26)
GROUPS = [("data", "ml.c5.9xlarge", 2), ("train", "ml.g5.12xlarge", 1)]


def test_dollars_of_each_group_and_of_all() -> None:
    cost = estimate(GROUPS, PriceList(), "us-east-1", DAY)

    assert [group.per_hour for group in cost.groups] == [2 * 1.836, 7.09]
    assert cost.per_hour == pytest.approx(10.762)
    assert cost.dollars(1800) == pytest.approx(5.381)
    assert [group.dollars(7200) for group in cost.groups] == [4 * 1.836, 2 * 7.09]
    assert cost.unknown_types == ()


def test_one_unknown_price_leaves_the_sum_unknown_and_the_rest_known() -> None:
    cost = estimate([*GROUPS, ("more", "ml.p5e.48xlarge", 1)], PriceList(), "us-east-1", DAY)

    assert cost.per_hour is None
    assert cost.dollars(60) is None
    assert cost.groups[0].dollars(3600) == 2 * 1.836
    assert cost.groups[2].dollars(3600) is None
    assert cost.unknown_types == ("ml.p5e.48xlarge",)


JULY = "us-east-1 on-demand prices of July 2026"


@pytest.mark.parametrize(
    ("region", "day", "said"),
    [
        ("us-east-1", date(2026, 7, 31), f"{JULY} (less than a month old; {{}})"),
        ("us-east-1", date(2026, 8, 1), f"{JULY} (1 month old; {{}})"),
        ("us-east-1", date(2026, 9, 30), f"{JULY} (2 months old; {{}})"),
        ("us-east-1", date(2026, 10, 1), f"{JULY}* (3 months old; {{}})"),
        ("us-east-1", date(2026, 2, 1), f"{JULY}* (up to 5 months later; {{}})"),
        ("eu-west-1", date(2026, 9, 1), f"{JULY} (2 months old; {{}}); eu-west-1 differs"),
        (None, date(2026, 9, 1), f"{JULY} (2 months old; {{}}); other regions differ"),
        ("local", date(2026, 9, 1), f"{JULY} (2 months old; {{}}); other regions differ"),
    ],
)
def test_an_estimate_says_of_when_and_where_its_prices_are(
    region: str | None, day: date, said: str
) -> None:
    place = "eu-west-1" if region == "eu-west-1" else "us-east-1"
    command = f"`launcher plan types --update --region {place}` reads AWS's"
    found = estimate(GROUPS, PriceList(), region, day)

    assert found.sources == (said.format(command),)
    assert found.is_old is ("*" in said)


def test_own_prices_are_said_to_be_own() -> None:
    file = Path("prices.csv")
    own = Price(instance_type="ml.c5.9xlarge", per_hour=1.0, file=file)
    cost = estimate(GROUPS, PriceList(own=(own,)), "eu-west-1", DAY)

    assert cost.per_hour == 2 * 1.0 + 7.09
    assert cost.sources[0] == "your own prices (prices.csv)"
    assert len(cost.sources) == 2


def test_volumes_of_a_known_price_are_in_the_sum_and_others_are_not() -> None:
    """A host with disks of its own has none; a GB and month is that of the shortest month."""
    assert volume_gb([[("ml.c5.9xlarge", 2)], [("ml.g5.12xlarge", 1)]], 30) == 60
    assert volume_gb([[("ml.g5.12xlarge", 1), ("ml.c5.9xlarge", 1)]], 30) == 30
    own = Price(instance_type="storage", per_hour=0.14, file=Path("prices.csv"))
    with_price = estimate(GROUPS, PriceList(own=(own,)), "us-east-1", DAY, 60)
    without = estimate(GROUPS, PriceList(), "us-east-1", DAY, 60)

    assert with_price.volumes_per_hour == pytest.approx(60 * 0.14 / (28 * 24))
    assert with_price.dollars(3600) == pytest.approx(10.762 + 0.0125)
    assert "your own prices (prices.csv)" in with_price.sources
    assert (without.volumes_per_hour, without.per_hour) == (None, 2 * 1.836 + 7.09)
    assert estimate(GROUPS, PriceList(), "us-east-1", DAY).volumes_per_hour == 0


def test_this_machine_is_free_and_needs_no_source() -> None:
    cost = estimate([("all", "local", 3)], PriceList(), None, DAY)

    assert (cost.per_hour, cost.dollars(3600), cost.sources) == (0, 0, ())


@pytest.mark.parametrize(
    ("training", "billable", "saved"),
    [(500, 100, 0.8), (500, 500, 0), (0, 0, None), (None, 100, None), (500, None, None)],
)
def test_the_saving_is_counted_as_aws_counts_it(
    training: int | None, billable: int | None, saved: float | None
) -> None:
    assert spot_saving(training, billable) == saved


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (None, "unknown"),
        (0, "$0.00"),
        (0.004, "<$0.01"),
        (0.005, "$0.01"),
        (12.31, "$12.31"),
        (4896.5, "$4,896.50"),
    ],
)
def test_dollars_as_text(dollars: float | None, text: str) -> None:
    assert dollars_text(dollars) == text


def test_prices_of_several_months_are_one_source_and_what_is_doubtful_is_marked() -> None:
    groups = [(name, f"ml.{name}xlarge", 1) for name in ("p4d.24", "c5.", "c6i.", "m6i.", "m7i.")]
    more = [(f"c7i.{n}", f"ml.c7i.{n}xlarge", 1) for n in (2, 4)]
    cost = estimate([*groups, *more], PriceList(), "us-east-1", date(2026, 9, 30))

    assert [cost.is_old_price(group) for group in cost.groups] == [True, *[False] * 6]
    (source,) = cost.sources
    assert " of June 2026*, July 2026, September 2026 (0 to 3 months old; " in source
    alone = "ml.c6i.xlarge, ml.m6i.xlarge, ml.m7i.xlarge and 2 more"
    assert f"; one public copy alone has those of {alone}; `launcher plan types" in source
