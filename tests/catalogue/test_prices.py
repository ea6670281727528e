"""Prices of instances: Launcher's, dated; and a user's own file, which wins."""

from __future__ import annotations

import errno
import os
from datetime import date
from pathlib import Path

import pytest

from launcher.client import catalogue
from launcher.client.catalogue import Price
from launcher.errors import SpecError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    monkeypatch.delenv("LAUNCHER_PRICES", raising=False)
    return tmp_path


def price(instance_type: str, region: str | None = "us-east-1") -> Price | None:
    return catalogue.price_list().find(instance_type, region)


WEST = "us-west-2"


def dollars(instance_type: str, region: str | None = "us-east-1") -> float | None:
    found = price(instance_type, region)
    return found and found.per_hour


def test_a_price_has_a_region_and_a_month() -> None:
    assert price("ml.c5.xlarge") == Price(
        instance_type="ml.c5.xlarge",
        per_hour=0.204,
        region="us-east-1",
        as_of="2026-07",
        source="aws-pricing",
    )


def test_a_price_that_nobody_could_confirm_is_unknown() -> None:
    assert price("ml.p5e.48xlarge") is None
    assert price("ml.c5.3xlarge") is None


@pytest.mark.parametrize(
    ("as_of", "is_old"),
    [("2026-11", False), ("2026-09", False), ("2026-08-31", True), ("2022", True), (None, False)],
)
def test_a_price_is_old_after_three_months(as_of: str | None, is_old: bool) -> None:
    dated = Price(instance_type="ml.c5.xlarge", per_hour=1.0, as_of=as_of)

    assert dated.is_old(date(2026, 11, 1)) is is_old


def test_the_docs_name_the_families_with_and_without_a_price() -> None:
    page = " ".join((ROOT / "docs" / "reference" / "planner.md").read_text().split())
    types = [each for each in catalogue.instance_types() if each.startswith("ml.")]
    priced = {each.split(".")[1] for each in types if price(each)}
    assert f"has prices of the families {_listed(priced)}. " in page
    assert "Those of all other families are unknown" in page


def _listed(names: set[str]) -> str:
    *first, last = sorted(names)
    return f"{', '.join(first)} and {last}"


def test_this_machine_costs_nothing_anywhere() -> None:
    assert dollars("local", None) == 0
    assert dollars("local_gpu", "eu-west-1") == 0


def test_two_regions_have_prices_of_their_own() -> None:
    found = [price("ml.g7e.48xlarge", region) for region in (WEST, "us-east-1", "eu-west-1")]
    assert [each and (each.per_hour, each.region) for each in found] == [
        *((41.4304, WEST), None, None),
    ]
    near = price("ml.c6i.xlarge", WEST)
    assert near is not None
    assert not near.is_of(WEST)


def test_a_price_that_one_copy_alone_has_says_so() -> None:
    doubts = {name: price(f"ml.{name}") for name in ("c5.xlarge", "p4de.24xlarge", "c6i.xlarge")}
    assert [each and each.is_of_one_copy for each in doubts.values()] == [False, False, True]


def test_elsewhere_the_price_says_of_which_region_it_is() -> None:
    found = price("ml.g5.xlarge", "eu-west-1")
    assert found is not None
    assert (found.per_hour, found.region) == (1.408, "us-east-1")


def test_every_price_is_of_a_type_of_the_catalogue() -> None:
    priced = [name for name in catalogue.instance_types() if price(name)]
    table = Path(catalogue.__file__).with_name("prices.csv").read_text()
    rows = [line.split(",") for line in table.splitlines() if not line.startswith("#")]
    here = [name for name, _, region, *_ in rows[1:] if region != WEST]
    assert priced == [name for name in catalogue.instance_types() if name in here]
    assert len(set(here)) == len(here)
    assert all(0 <= (dollars(name) or 0) < 200 for name in priced)


@pytest.mark.parametrize(("family", "per_vcpu"), [("c5", 0.051), ("m5", 0.0576)])
def test_prices_of_a_cpu_family_grow_with_its_size(family: str, per_vcpu: float) -> None:
    for known in catalogue.instance_types().values():
        if known.name.startswith(f"ml.{family}.") and known.vcpu:
            assert (dollars(known.name) or 0) / known.vcpu == pytest.approx(per_vcpu, rel=0.01)


OWN = """\
# what we agreed with AWS
instance_type, price_per_hour, region
ml.p5e.48xlarge, 25.25, us-east-1
ml.g5.xlarge, 1.5, eu-west-1

ml.c5.xlarge, 0.1,
"""


def test_own_prices_win_where_they_hold(home: Path) -> None:
    (home / "prices.csv").write_text(OWN)

    assert dollars("ml.p5e.48xlarge") == 25.25
    assert dollars("ml.p5e.48xlarge", "eu-west-1") is None
    assert dollars("ml.g5.xlarge", "eu-west-1") == 1.5
    assert dollars("ml.g5.xlarge", "us-east-1") == 1.408
    assert dollars("ml.c5.xlarge", "ap-south-1") == dollars("ml.c5.xlarge", None) == 0.1
    own = price("ml.c5.xlarge")
    assert own is not None
    assert own.file == home / "prices.csv"


def test_own_prices_without_regions_need_no_column(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "elsewhere.csv"
    file.write_text("instance_type,price_per_hour\nml.p5.48xlarge,31\n")
    monkeypatch.setenv("LAUNCHER_PRICES", str(file))

    assert dollars("ml.p5.48xlarge", "us-west-2") == 31


def test_every_bad_line_of_own_prices_is_reported(home: Path) -> None:
    (home / "prices.csv").write_text(OWN + "ml.p3.2xlarge\nml.p3.8xlarge, cheap\na, -1\nb, inf\n")

    with pytest.raises(SpecError) as caught:
        catalogue.price_list()

    assert [problem.where for problem in caught.value.problems] == [
        f"{home / 'prices.csv'}:{line}" for line in (7, 8, 9, 10)
    ]
    assert "'cheap' is not a price" in str(caught.value)


@pytest.mark.parametrize("name", ["g5.xlarge", "ML.G5.XLARGE", "ml.g5.xlrge"])
def test_a_near_miss_of_a_type_is_refused_and_a_new_type_is_not(home: Path, name: str) -> None:
    lines = f"instance_type,price_per_hour\nml.g99.xlarge,1\nml.c5.large,1\n{name},1\n"
    (home / "prices.csv").write_text(lines)

    with pytest.raises(SpecError, match=r"did you mean ml.g5.xlarge\?") as caught:
        catalogue.price_list()
    assert [problem.where for problem in caught.value.problems] == [f"{home / 'prices.csv'}:4"]


SPOT = """\
instance_type,price_per_hour,region,spot_low,spot_high
ml.g5.xlarge,1.408,,0.4,0.7
ml.c5.xlarge,0.204,,,
"""


def test_own_prices_may_have_a_range_of_spot_prices(home: Path) -> None:
    (home / "prices.csv").write_text(SPOT)
    g5, c5 = price("ml.g5.xlarge"), price("ml.c5.xlarge")

    assert g5 is not None
    assert c5 is not None
    assert (g5.spot, c5.spot) == ((0.4, 0.7), None)


@pytest.mark.parametrize("cells", ["0.4,", ",0.7", "0.7,0.4", "low,high", "-1,1"])
def test_what_is_no_range_of_spot_prices_is_reported(home: Path, cells: str) -> None:
    (home / "prices.csv").write_text(SPOT.replace("0.4,0.7", cells))

    with pytest.raises(SpecError, match="is no range of spot prices") as caught:
        catalogue.price_list()
    assert [problem.where for problem in caught.value.problems] == [f"{home / 'prices.csv'}:2"]


@pytest.mark.parametrize("as_of", ["2026", "2026-11", "2026-11-20", ""])
def test_own_prices_may_have_a_date(home: Path, as_of: str) -> None:
    (home / "prices.csv").write_text(
        f"instance_type,price_per_hour,as_of\nml.g5.xlarge,1.4,{as_of}\n"
    )
    found = price("ml.g5.xlarge")

    assert found is not None
    assert found.as_of == (as_of or None)


@pytest.mark.parametrize(
    "as_of", ["Nov 2026", "2026/11", "2026-13", "2026-W47-5", "2026-11-20T10", "0"]
)
def test_what_is_no_date_of_a_price_is_reported(home: Path, as_of: str) -> None:
    (home / "prices.csv").write_text(
        f"instance_type,price_per_hour,as_of\nml.g5.xlarge,1.4,{as_of}\n"
    )

    with pytest.raises(SpecError, match="is not the date of a price") as caught:
        catalogue.price_list()
    assert [problem.where for problem in caught.value.problems] == [f"{home / 'prices.csv'}:2"]


def test_own_prices_may_be_saved_by_a_spreadsheet(home: Path) -> None:
    (home / "prices.csv").write_text(
        "instance_type,price_per_hour\nml.g5.xlarge,1.4\n", encoding="utf-8-sig"
    )

    assert dollars("ml.g5.xlarge") == 1.4


def test_own_prices_that_are_no_csv_are_reported(home: Path) -> None:
    (home / "prices.csv").write_text("instance_type,price_per_hour\n" + "x" * 200_000)

    with pytest.raises(SpecError, match="cannot read your price file: it is no CSV"):
        catalogue.price_list()


def test_a_home_that_may_not_be_searched_is_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not stop root, who may run the tests: the refusals are made up."""

    def refuse(path: Path, **_options: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)

    with pytest.raises(SpecError, match=r"cannot read your price file: .*Permission denied"):
        catalogue.price_list()


def test_a_named_file_that_is_not_there_is_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHER_PRICES", str(home / "none.csv"))

    with pytest.raises(SpecError, match="LAUNCHER_PRICES"):
        catalogue.price_list()
