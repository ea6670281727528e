"""Prices from AWS's price list: files in its format, served over HTTP."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from price_lists import COLUMNS, OTHERS, TRAINING, Offer, PriceServer, csv_file, serving

from launcher.client import catalogue
from launcher.client.catalogue import PriceUpdate, update_prices
from launcher.errors import CloudError, PlatformError, Refused, SpecError, Unreachable

PRICES = {"ml.c5.xlarge": 0.204, "ml.p4d.24xlarge": 25.251948, "ml.p6-b200.48xlarge": 131.9}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    for name in ("LAUNCHER_PRICES", "LAUNCHER_PRICE_LIST", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def server() -> Iterator[PriceServer]:
    with serving() as prices:
        yield prices


def update(server: PriceServer, *regions: str) -> tuple[PriceUpdate, ...]:
    return update_prices(regions or ["us-east-1"], base_url=server.address)


def update_one(server: PriceServer, offers: tuple[Offer, ...]) -> PriceUpdate:
    server.put(csv_file(offers))
    return update(server)[0]


def dollars(name: str, region: str | None = "us-east-1") -> float | None:
    found = catalogue.price_list().find(name, region)
    return found and found.per_hour


def test_training_prices_are_read_and_used_from_then_on(server: PriceServer) -> None:
    done = update_one(server, (*OTHERS, *TRAINING))

    assert (done.prices.per_hour, done.prices.published) == (PRICES, "2026-11-20")
    assert {name: dollars(name) for name in PRICES} == PRICES
    found = catalogue.price_list().find("ml.p4d.24xlarge", "us-east-1")
    assert found is not None
    assert (found.as_of, found.region, found.source) == (
        "2026-11-20",
        "us-east-1",
        "aws-price-list",
    )


def test_each_region_has_prices_of_its_own(server: PriceServer) -> None:
    dearer = (Offer("EU-Train:ml.c5.xlarge", "0.23", region="eu-west-1"),)
    server.put(csv_file(TRAINING))
    server.put(csv_file(dearer), "eu-west-1")
    update(server, "us-east-1", "eu-west-1")

    assert (dollars("ml.c5.xlarge"), dollars("ml.c5.xlarge", "eu-west-1")) == (0.204, 0.23)
    assert dollars("ml.p4d.24xlarge", "eu-west-1") is None  # its region's list has none
    assert dollars("ml.p4d.24xlarge", "sa-east-1") == 25.251948  # of us-east-1, which it says


def test_a_type_that_aws_no_longer_lists_has_no_price(server: PriceServer) -> None:
    assert (dollars("ml.p3.2xlarge"), dollars("ml.g5.xlarge")) == (3.825, 1.408)
    update_one(server, TRAINING)

    assert (dollars("ml.p3.2xlarge"), dollars("ml.g5.xlarge")) == (None, None)
    assert dollars("ml.p3.2xlarge", "sa-east-1") is None
    assert dollars("local") == 0


def test_a_job_of_the_past_has_the_price_of_its_day(server: PriceServer) -> None:
    """Ours before the first update, then that of the last update before it, or none."""
    update_one(server, TRAINING)
    cheaper = csv_file((Offer("USE1-Train:ml.c5.xlarge", "0.1"), TRAINING[2]))
    server.put(cheaper.replace("2026-11-20", "2027-02-03"))
    assert update(server)[0].lost == ("ml.p4d.24xlarge",)

    found = {
        day: [catalogue.price_list(day).find(name, "us-east-1") for name in PRICES]
        for day in (date(2026, 11, 19), date(2026, 11, 20), date(2027, 2, 2), date(2027, 2, 3))
    }
    paid = [[each and each.per_hour for each in prices] for prices in found.values()]
    newest = [0.1, None, 131.9]
    assert paid == [[0.204, 25.251286, 131.9], *[list(PRICES.values())] * 2, newest]
    assert [dollars(name) for name in PRICES] == newest
    assert catalogue.price_list(date(2026, 1, 1)).find("ml.c5.xlarge", "sa-east-1") is not None


def test_your_own_prices_win_over_updated_ones(server: PriceServer, home: Path) -> None:
    update_one(server, TRAINING)
    (home / "prices.csv").write_text("instance_type,price_per_hour\nml.c5.xlarge,0.1\n")

    assert dollars("ml.c5.xlarge") == 0.1


def test_a_usage_type_without_a_region_is_training_too(server: PriceServer) -> None:
    done = update_one(server, (Offer("Train:ml.c5.xlarge", "0.2"),))

    assert done.prices.per_hour == {"ml.c5.xlarge": 0.2}


def test_equal_duplicates_are_one_price_and_different_ones_are_none(server: PriceServer) -> None:
    again = (TRAINING[0], replace(TRAINING[1], price="99"), Offer(TRAINING[0].usage_type, "0.0"))
    done = update_one(server, (*TRAINING, *again))

    assert done.prices.per_hour == {"ml.c5.xlarge": 0.204, "ml.p6-b200.48xlarge": 131.9}
    assert done.prices.ambiguous == ("ml.p4d.24xlarge",)


def test_the_first_tier_counts(server: PriceServer) -> None:
    tiers = (
        Offer("USE1-Train:ml.c5.xlarge", "0.5", begin="0", end="1000"),
        Offer("USE1-Train:ml.c5.xlarge", "0.4", begin="1000", end="Inf"),
    )

    assert update_one(server, tiers).prices.per_hour == {"ml.c5.xlarge": 0.5}


def test_a_type_that_is_missing_has_no_price_any_more_and_is_named(server: PriceServer) -> None:
    update_one(server, TRAINING)
    done = update_one(server, TRAINING[:2])

    assert done.lost == ("ml.p6-b200.48xlarge",)
    assert dollars("ml.p6-b200.48xlarge") is None


#: What may be wrong with a file of the price list.
BROKEN: dict[str, Callable[[str], str]] = {
    "cut off": lambda text: text[:-700],
    "another unit": lambda text: text.replace("Hrs", "Quantity"),
    "a renamed field": lambda text: text.replace("usageType", "Usage Kind"),
    "a renamed price": lambda text: text.replace("PricePerUnit", "Rate"),
    "no date": lambda text: text.replace("Publication Date", "Date"),
    "a price in words": lambda text: text.replace("0.2040000000", "cheap"),
    "an endless price": lambda text: text.replace("0.2040000000", "1e999"),
    "no day of the calendar": lambda text: text.replace("2026-11-20", "2026-13-20"),
    "a long line": lambda _: "<html>" + "x" * 200_000,
    "a page": lambda _: "<html><body>Sign in to this network</body></html>",
    "nothing": lambda _: "",
}


@pytest.mark.parametrize("breaking", BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_not_whole_or_has_another_format_leaves_the_old_prices(
    server: PriceServer, breaking: Callable[[str], str], home: Path
) -> None:
    update_one(server, TRAINING)
    before = {path: path.read_bytes() for path in home.rglob("*.csv")}
    server.put(breaking(csv_file((*TRAINING, *OTHERS))))

    with pytest.raises(CloudError, match="fix: try again later"):
        update(server)

    assert {path: path.read_bytes() for path in home.rglob("*.csv")} == before
    assert {name: dollars(name) for name in PRICES} == PRICES
    assert [path for path in home.rglob("*") if path.is_file()] == list(before)


def test_the_column_that_was_renamed_is_named(server: PriceServer) -> None:
    server.put(BROKEN["a renamed field"](csv_file(TRAINING)))

    with pytest.raises(CloudError, match="no column usagetype; AWS may have renamed it"):
        update(server)


def test_columns_may_have_another_order_and_spelling(server: PriceServer) -> None:
    spelled = ["Usage Type" if name == "usageType" else name for name in COLUMNS]
    server.put(csv_file(TRAINING, spelled))

    assert update(server)[0].prices.per_hour == PRICES


def test_a_body_shorter_than_promised_is_not_taken(server: PriceServer) -> None:
    server.put(csv_file(TRAINING))
    server.short = True

    with pytest.raises(Unreachable, match="ended 1000 bytes early"):
        update(server)
    assert dollars("ml.p4d.24xlarge") == 25.251286  # Launcher's own


def test_one_region_that_fails_leaves_all_of_them(server: PriceServer, home: Path) -> None:
    server.put(csv_file(TRAINING))

    with pytest.raises(Refused, match="403 Forbidden; check the region"):
        update(server, "us-east-1", "ap-south-2")
    assert not list(home.rglob("*.csv"))


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="could not be read"):
        update_prices(["us-east-1"], base_url="http://127.0.0.1:9")


@pytest.mark.parametrize("region", ["../../etc", "", "us_east_1", "US-EAST-1", "us-esat-1"])
def test_what_is_no_region_is_refused(server: PriceServer, region: str) -> None:
    with pytest.raises(SpecError, match="is not a region of AWS"):
        update(server, region)
    assert server.asked == []


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(PlatformError, match="is not the address of a price list"):
        update_prices(["us-east-1"], base_url="file:///etc")


def test_the_server_is_that_of_the_variable(
    server: PriceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put(csv_file(TRAINING))
    monkeypatch.setenv("LAUNCHER_PRICE_LIST", server.address + "/")

    assert update_prices(["us-east-1"])[0].prices.per_hour == PRICES


def test_a_damaged_file_of_prices_is_named_with_its_fix(server: PriceServer) -> None:
    done = update_one(server, TRAINING)
    done.file.write_text(done.file.read_text().replace("0.204", "cheap"))

    with pytest.raises(SpecError, match="run `launcher plan types --update --region us-east-1`"):
        catalogue.price_list()
    assert update(server)[0].lost == ()
    assert dollars("ml.c5.xlarge") == 0.204


@pytest.mark.long
def test_a_large_file_is_read_in_little_memory(server: PriceServer) -> None:
    many = [Offer(f"USE1-Host:ml.c5.{number}xlarge", "0.2") for number in range(8_000)]
    server.put(csv_file([*many, *TRAINING]))
    tracemalloc.start()
    try:
        assert update(server)[0].prices.per_hour == PRICES
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert sum(map(len, server.bodies.values())) > 2_000_000
    assert peak < 1_500_000


def test_a_folder_that_cannot_be_written_is_named(
    server: PriceServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("LAUNCHER_HOME", str(home / "file"))
    server.put(csv_file(TRAINING))

    with pytest.raises(PlatformError, match=r"us-east-1\.csv cannot be written: Not a directory"):
        update(server)


def test_the_dearest_volume_is_the_price_of_storage(server: PriceServer) -> None:
    gp3 = Offer("USE1-Train:VolumeUsage.gp3", "0.1120000000", unit="GB-Mo")
    done = update_one(server, (*OTHERS, gp3, *TRAINING))

    assert done.prices.storage == 0.14
    found = catalogue.price_list().storage("us-east-1")
    assert found is not None
    assert found.per_hour == 0.14 / (28 * 24)
    assert found.as_of == "2026-11-20"
    assert catalogue.price_list().storage("eu-west-1") is None
    assert update_one(server, TRAINING).lost == ("storage",)
