"""Estimates: price times instances times hours, and what is unknown stays unknown."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from launcher.client.catalogue import Price, PriceList, dollars_text, estimate, spot_saving

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
    cost = estimate([*GROUPS, ("more", "ml.p4de.24xlarge", 1)], PriceList(), "us-east-1", DAY)

    assert cost.per_hour is None
    assert cost.dollars(60) is None
    assert cost.groups[0].dollars(3600) == 2 * 1.836
    assert cost.groups[2].dollars(3600) is None
    assert cost.unknown_types == ("ml.p4de.24xlarge",)


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ("us-east-1", "us-east-1 on-demand prices of July 2026"),
        ("eu-west-1", "us-east-1 on-demand prices of July 2026; eu-west-1 differs"),
        (None, "us-east-1 on-demand prices of July 2026; other regions differ"),
    ],
)
def test_an_estimate_says_of_when_and_where_its_prices_are(region: str | None, said: str) -> None:
    assert estimate(GROUPS, PriceList(), region, DAY).sources == (said,)


def test_own_prices_are_said_to_be_own() -> None:
    file = Path("prices.csv")
    own = Price(instance_type="ml.c5.9xlarge", per_hour=1.0, file=file)
    cost = estimate(GROUPS, PriceList(own={("ml.c5.9xlarge", None): own}), "eu-west-1", DAY)

    assert cost.per_hour == 2 * 1.0 + 7.09
    assert cost.sources[0] == "your own prices (prices.csv)"
    assert len(cost.sources) == 2


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


def test_an_old_price_is_said_to_be_old() -> None:
    dated = Price(
        instance_type="ml.c5.9xlarge", per_hour=1.0, region="us-east-1", as_of="2025-10-01"
    )
    prices = PriceList(updated={("ml.c5.9xlarge", "us-east-1"): dated})
    cost = estimate(GROUPS, prices, "us-east-1", DAY)

    assert cost.is_old
    assert [cost.is_old_price(group) for group in cost.groups] == [True, False]
    assert cost.sources[0] == (
        "us-east-1 on-demand prices of October 2025 "
        "(old; `launcher plan types --update` reads today's)"
    )
    assert not estimate(GROUPS, prices, "us-east-1", date(2026, 1, 1)).is_old
