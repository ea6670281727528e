"""`launcher plan types`."""

import json

import pytest
from click.testing import CliRunner
from price_lists import TRAINING, Offer, csv_file, serving

from launcher.client import catalogue
from launcher.client.cli import main


@pytest.fixture
def launcher(tmp_path):
    def run(*words):
        runner = CliRunner(env={"LAUNCHER_HOME": str(tmp_path), "LAUNCHER_PRICES": None})
        return runner.invoke(main, ["plan", "types", *words], catch_exceptions=False)

    return run


def test_list_has_the_types_with_that_many_accelerators_by_price(launcher):
    result = launcher("--gpus", "8", "--sort", "price")
    lines = result.stdout.splitlines()

    types = [line.split()[0] for line in lines[1:]]
    known = ["g6.48", "g5.48", "p4d.24", "p3.16", "p4de.24", "p3dn.24", "g6e.48", "p5.48"]
    assert types[:8] == [f"ml.{name}xlarge" for name in known]
    assert "8 x NVIDIA A100" in lines[3]
    assert lines[1].endswith("16.688  2026-09 (one copy)")
    assert lines[3].endswith("25.251286  2026-06 (old)")
    assert all(line.endswith("?  unknown") for line in lines[9:])
    assert "15 types; " in result.stderr
    assert "8 have a price, 7 have none" in result.stderr
    assert (
        "Prices: us-east-1 on-demand prices of June 2026*, July 2026, September 2026 (0 to 3 "
        in result.stderr
    )


def test_list_says_which_region_a_price_is_from(launcher):
    lines = launcher("--family", "g5", "--region", "eu-west-1").stdout.splitlines()

    assert len(lines) == 1 + 8
    assert all("  2026-07 us-east-1" in line for line in lines[1:])


def test_list_as_json_counts_known_and_unknown_figures(launcher):
    result = json.loads(launcher("-o", "json").stdout)

    assert len(result["types"]) == 225
    figures = [figure for each in result["types"] for figure in each["figures"]]
    assert result["known"] == sum(figure["value"] is not None for figure in figures)
    assert result["known"] + result["unknown"] == len(figures)


@pytest.mark.parametrize("sort", ["vcpu", "memory", "gpus", "network"])
def test_list_sorts_unknown_figures_last(launcher, sort):
    types = json.loads(launcher("--sort", sort, "-o", "json").stdout)["types"]

    name = {"vcpu": "vCPU", "gpus": "accelerators"}.get(sort, sort)
    values = [
        figure["value"] for each in types for figure in each["figures"] if figure["name"] == name
    ]
    known = [value for value in values if value is not None]
    assert values == sorted(known) + [None] * (len(values) - len(known))


def test_list_of_no_type_is_an_error(launcher):
    result = launcher("--family", "c99")

    assert result.exit_code == 2
    assert "no instance type of the catalogue is like that" in result.stderr


@pytest.mark.parametrize("name", ["ml.g5.xlarge", "g5.xlarge"])
def test_show_has_the_source_of_each_figure(launcher, name):
    result = launcher(name)
    lines = result.stdout.splitlines()

    assert lines[0] == "ml.g5.xlarge, NVIDIA A10G"
    assert lines[1].split(None, 2) == [
        "vCPU",
        "4",
        "EC2's DescribeInstanceTypes, as moto 5.2.5 has recorded it (2026-10)",
    ]
    assert "peak bf16" in result.stdout
    assert "9 figures are known and 4 unknown" in result.stderr


def test_show_of_an_unknown_price_says_how_to_add_it(launcher, tmp_path):
    result = launcher("ml.p5e.48xlarge")

    assert result.stdout.splitlines()[-1].split() == ["price", "unknown"]
    assert f'"ml.p5e.48xlarge,DOLLARS" to {tmp_path / "prices.csv"}' in result.stderr


def test_show_of_your_own_prices_says_so(launcher, tmp_path):
    (tmp_path / "prices.csv").write_text(
        "instance_type,price_per_hour,spot_low,spot_high\nml.p5e.48xlarge,31.5,12,20\n"
    )
    shown = launcher("ml.p5e.48xlarge").stdout

    assert "31.5 $/h, everywhere" in shown
    assert "spot price          12 to 20 $/h" in shown
    assert f"your own prices ({tmp_path / 'prices.csv'})" in shown.splitlines()[-1]


def test_show_suggests_the_nearest_type(launcher):
    result = launcher("ml.g5.4xlrge", "-o", "json")

    assert result.exit_code == 2
    assert "did you mean ml.g5.4xlarge?" in json.loads(result.stdout)["error"]["message"]


@pytest.fixture
def price_server():
    with serving() as server:
        server.put(csv_file(TRAINING))
        yield server


def test_update_needs_no_credentials(launcher, offline, price_server, tmp_path):
    result = launcher("--update", "--price-list", price_server.address)

    file = tmp_path / "catalogue" / "prices" / "us-east-1.csv"
    line = f"3 training prices of us-east-1, published 2026-11-20: {file}\n"
    assert result.stdout == line
    assert "Instance types stay as they are: no AWS credentials were found" in result.stderr
    shown = launcher("ml.p4d.24xlarge").stdout.splitlines()[-1]
    assert "25.251948 $/h, us-east-1, price of 2026-11-20" in shown
    assert "AWS's price list" in shown


@pytest.mark.long
def test_update_asks_ec2_where_there_are_credentials(launcher, aws, price_server, monkeypatch):
    # moto lists its 800 types in 10 to 30 s, and longer where much runs beside it.
    monkeypatch.setattr("launcher.client.sessions.aws.clients._READ_SECONDS", 300)
    monkeypatch.setattr("launcher.client.sessions.aws.call_limits.CALL_SECONDS", 300)
    offer = Offer("USE1-Train:ml.m5zn.large", "0.2")  # not in Launcher's table
    price_server.put(csv_file([*TRAINING, offer]))
    result = launcher("--update", "--price-list", price_server.address, "-o", "json")

    types = json.loads(result.stdout)["types"]
    assert types["new"] == ["ml.m5zn.large"]
    assert types["count"] > 200
    lines = launcher("ml.m5zn.large").stdout.splitlines()
    assert f"asked by `launcher plan types --update` ({catalogue.today()})" in lines[1]
    assert "0.2 $/h" in lines[-1]


@pytest.mark.long
def test_an_update_that_fails_says_so_and_changes_nothing(launcher, offline, price_server):
    launcher("--update", "--price-list", price_server.address)
    price_server.put(csv_file(TRAINING)[:-40])
    result = launcher("--update", "--price-list", price_server.address, "-o", "json")

    assert result.exit_code == 4
    assert "the file is not complete" in json.loads(result.stdout)["error"]["message"]
    assert "25.251948 $/h" in launcher("ml.p4d.24xlarge").stdout


def test_damaged_instance_types_are_named_with_their_fix(launcher, tmp_path):
    file = tmp_path / "catalogue" / "instances.csv"
    file.parent.mkdir()
    file.write_text("instance_type,vcpu\nml.c5.xlarge,many\n")
    result = launcher("ml.c5.xlarge")

    assert result.exit_code == 2
    assert f"where: {file}" in result.stderr
    assert "fix: run `launcher plan types --update`, or delete the file" in result.stderr


def test_the_format_of_the_price_list_is_no_choice(launcher):
    result = launcher("--update", "--format", "json")

    assert result.exit_code == 2
    assert "there is no --format any more: leave it out" in result.stderr
