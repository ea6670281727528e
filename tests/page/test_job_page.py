"""The page of a job: what stands first, and what a reader finds below."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from shown_pages import blocks, shown_page, words
from test_page_in_browsers import LongJob

from launcher import Estimator, JobFailed, LocalSession, report
from launcher.client.show import JobsPage, PageSection, page_html, text_block

SCRIPT = """\
import sys
print("loss=1.5", flush=True)
print("<script>alert(1)</script></script> \\x1b[2J secret-free", flush=True)
print("loss=0.5", flush=True)
if sys.argv[1:]:
    raise ValueError("learning rate 0 </script><b>")
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The pages of a job that ended, of one that failed, and of a day with 64 hosts."""
    home, code = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("code")
    (code / "train.py").write_text(SCRIPT)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAUNCHER_HOME", str(home))
        for name, parameters in (("ended", {}), ("failed", {"lr": 0})):
            estimator = Estimator(
                entry_point=str(code / "train.py"),
                hyperparameters=parameters,
                metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
                sagemaker_session=LocalSession(isolation="process"),
                instance_type="ml.c5.xlarge",
                instance_count=1,
            )
            job = estimator.fit(job_name=name, wait=False)
            with suppress(JobFailed):
                job.wait(logs=False)
            found[name] = shown_page(report(job).html)
        day = LongJob(hours=2)
        day.job("a-day").write(Path(home), day.lines())
        found["day"] = shown_page(report("a-day", workload=day.workload()).html)
    return found


def cards(page: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {card["label"]: card for card in page["cards"]}


def test_first_come_the_end_the_cause_the_cost_and_the_wait(pages: dict[str, Any]) -> None:
    ended, failed, day = (cards(pages[name]) for name in ("ended", "failed", "day"))
    assert pages["ended"]["state"] == "Completed"
    assert list(ended) == ["Ran for", "Cost on AWS would be", "Waiting for data"]
    assert "ValueError: learning rate 0 </script><b>" in failed["Why it failed"]["value"]
    assert next(iter(failed)) == "Why it failed"
    assert day["Waiting for data"]["value"] == "1.2% of the time"
    assert day["A step takes"]["value"] == "800 ms"
    assert "idle" in day["Cost on AWS would be"]["note"]
    assert day["What limits its speed"]["value"] == "compute-bound"
    assert day["Ran for"]["note"].startswith("step ")


def test_the_users_metrics_come_before_launchers_own(pages: dict[str, Any]) -> None:
    charts = blocks(pages["ended"], "chart", "Metrics")
    assert [chart["title"] for chart in charts] == ["loss, homogeneousCluster"]
    assert {tuple(line["y"]) for line in charts[0]["series"]} == {(1.5, 0.5)}
    titles = [chart["title"] for chart in blocks(pages["day"], "chart", "Metrics")]
    assert titles == ["train/loss, train_group", "validation/loss, train_group"]


def test_steps_have_percentiles_with_epochs_marked(pages: dict[str, Any]) -> None:
    steps = blocks(pages["day"], "chart", "Steps")[0]
    assert [line["name"] for line in steps["series"]] == ["p50", "p95"]
    low, high = (line["y"] for line in steps["series"])
    assert all(p50 <= p95 for p50, p95 in zip(low, high, strict=True))
    assert [mark["text"] for mark in steps["marks"]] == ["epoch 0", "epoch 1"]


def test_hosts_are_rows_with_the_worst_first(pages: dict[str, Any]) -> None:
    (table,) = blocks(pages["day"], "table", "Hosts")
    assert len(table["rows"]) == 64
    used = [row[4] or row[3] for row in table["rows"]]
    assert [each["share"] for each in used] == sorted(each["share"] for each in used)
    (table,) = blocks(pages["failed"], "table", "Hosts")
    assert table["rows"][0][0]["text"].endswith(" failed")


def test_many_hosts_are_three_lines(pages: dict[str, Any]) -> None:
    charts = blocks(pages["day"], "chart", "Hosts")
    assert all(
        [line["name"] for line in chart["series"]] == ["highest host", "median host", "lowest host"]
        for chart in charts
    )


def test_the_log_of_the_failed_host_is_shown_first_and_charted_events_are_not(
    pages: dict[str, Any],
) -> None:
    (log,) = blocks(pages["failed"], "log")
    first = log["hosts"][0]
    assert first["host"] == blocks(pages["failed"], "table", "Hosts")[0]["rows"][0][0]["log"]
    assert any("ValueError" in line for _, line in first["lines"])
    assert "host_usage" not in words(pages["day"])


def test_what_a_job_prints_cannot_become_a_part_of_the_page(pages: dict[str, Any]) -> None:
    """A page is JSON whose texts the script shows as texts, without control characters."""
    lines = [line for _, line in blocks(pages["ended"], "log")[0]["hosts"][0]["lines"]]
    assert "<script>alert(1)</script></script> \\x1b[2J secret-free" in lines
    html = page_html(
        JobsPage(
            title="</script>", sections=[PageSection(title="a", blocks=[text_block("</script>")])]
        )
    )
    assert html.count("</script>") == 2  # of the page's own two scripts
    assert "script-src 'sha256-" in html


def test_the_configuration_says_what_was_run(pages: dict[str, Any]) -> None:
    (facts,) = blocks(pages["failed"], "facts", "Configuration")
    labels = dict(facts["rows"])
    assert labels["Params"] == "lr = 0"
    assert {"Command", "Image", "Packages", "homogeneousCluster"} <= labels.keys()


def test_the_plan_of_a_job_has_the_job_in_it(pages: dict[str, Any]) -> None:
    (scatter,) = blocks(pages["day"], "scatter", "Plan")
    assert len(scatter["series"][-1]["names"]) == 1
    assert words(pages["ended"]).count("Not planned: ") == 1
