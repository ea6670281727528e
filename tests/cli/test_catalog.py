"""`launcher catalog list` and `show`."""

import json

import pytest
from click.testing import CliRunner

from launcher.client.cli import main


@pytest.fixture
def launcher(tmp_path):
    def run(*words):
        runner = CliRunner(env={"LAUNCHER_HOME": str(tmp_path), "LAUNCHER_PRICES": None})
        return runner.invoke(main, ["catalog", *words], catch_exceptions=False)

    return run


def test_list_has_the_types_with_that_many_accelerators_by_price(launcher):
    result = launcher("list", "--gpus", "8", "--sort", "price")
    lines = result.stdout.splitlines()

    types = [line.split()[0] for line in lines[1:]]
    assert types[:4] == ["ml.g5.48xlarge", "ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge"]
    assert "8 x NVIDIA A100" in lines[4]
    assert lines[4].endswith("37.688  2022-10 (old)")
    assert all(line.endswith("?  unknown") for line in lines[5:])
    assert "15 types; " in result.stderr
    assert "4 have a price, 11 have none" in result.stderr


def test_list_says_which_region_a_price_is_from(launcher):
    lines = launcher("list", "--family", "g5", "--region", "eu-west-1").stdout.splitlines()

    assert len(lines) == 1 + 8
    assert all(line.endswith("2026-11 us-east-1") for line in lines[1:])


def test_list_as_json_counts_known_and_unknown_figures(launcher):
    result = json.loads(launcher("list", "-o", "json").stdout)

    assert len(result["types"]) == 225
    figures = [figure for each in result["types"] for figure in each["figures"]]
    assert result["known"] == sum(figure["value"] is not None for figure in figures)
    assert result["known"] + result["unknown"] == len(figures)


@pytest.mark.parametrize("sort", ["vcpu", "memory", "gpus", "network"])
def test_list_sorts_unknown_figures_last(launcher, sort):
    types = json.loads(launcher("list", "--sort", sort, "-o", "json").stdout)["types"]

    name = {"vcpu": "vCPU", "gpus": "accelerators"}.get(sort, sort)
    values = [
        figure["value"] for each in types for figure in each["figures"] if figure["name"] == name
    ]
    known = [value for value in values if value is not None]
    assert values == sorted(known) + [None] * (len(values) - len(known))


def test_list_of_no_type_is_an_error(launcher):
    result = launcher("list", "--family", "c99")

    assert result.exit_code == 2
    assert "no instance type of the catalogue is like that" in result.stderr


@pytest.mark.parametrize("name", ["ml.g5.xlarge", "g5.xlarge"])
def test_show_has_the_source_of_each_figure(launcher, name):
    result = launcher("show", name)
    lines = result.stdout.splitlines()

    assert lines[0] == "ml.g5.xlarge, NVIDIA A10G"
    assert lines[1].split(None, 2) == [
        "vCPU",
        "4",
        "EC2's DescribeInstanceTypes, as moto 5.2.5 has recorded it (2026-10)",
    ]
    assert "peak bf16" in result.stdout
    assert "12 figures are known and 0 unknown" in result.stderr


def test_show_of_an_unknown_price_says_how_to_add_it(launcher, tmp_path):
    result = launcher("show", "ml.p5.48xlarge")

    assert result.stdout.splitlines()[-1].split() == ["price", "unknown"]
    assert f'"ml.p5.48xlarge,DOLLARS" to {tmp_path / "prices.csv"}' in result.stderr


def test_show_of_your_own_price_says_so(launcher, tmp_path):
    (tmp_path / "prices.csv").write_text("instance_type,price_per_hour\nml.p5.48xlarge,31.5\n")

    last = launcher("show", "ml.p5.48xlarge").stdout.splitlines()[-1]
    assert "31.5 $/h, everywhere" in last
    assert f"your own prices ({tmp_path / 'prices.csv'})" in last


def test_show_suggests_the_nearest_type(launcher):
    result = launcher("show", "ml.g5.4xlrge", "-o", "json")

    assert result.exit_code == 2
    assert "did you mean ml.g5.4xlarge?" in json.loads(result.stdout)["error"]["message"]
