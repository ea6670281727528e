"""`launcher plan`: compare clusters for a workload."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click

from launcher.client.cli.options.plan_options import plan_options
from launcher.client.cli.screen.charts import plan_chart
from launcher.client.cli.screen.verb_output import (
    echo,
    print_csv,
    print_json,
    print_message,
    terminal_width,
    with_data_option,
)
from launcher.client.cli.verb_group import CommandWithSubcommands
from launcher.client.cli.verb_table import VERBS
from launcher.client.home import check_new
from launcher.client.planning import (
    PlanLimits,
    PlanOrder,
    Workload,
    answer_text,
    cluster_table,
    explained_clusters,
    plain_recommendation,
    recommend,
    recommendation_scatter,
)


@click.command(cls=CommandWithSubcommands, subcommands=VERBS["plan"].subcommands)
@plan_options
@with_data_option
def plan(
    workload: Path,
    max_cost_per_hour: float | None,
    deadline: float | None,
    sort: str,
    limit: int,
    path: Path | None,
    page: Path | None,
    is_drawn: bool,
    is_explained: bool,
    output: str,
    **asked: Any,
) -> int:
    """Compare clusters for a workload: step time, bottleneck and cost.

    Clusters have one group or two, and each useful number of data hosts; with -o csv, a row each.
    Nothing is sent to AWS. The exit code is 1 if no cluster keeps to the limits, or none has a
    price.
    """
    found = recommend(
        Workload.from_yaml(workload),
        limits=PlanLimits(max_cost_per_hour=max_cost_per_hour, deadline_hours=deadline),
        order=PlanOrder(sort),
        **asked,
    )
    if page:
        check_new(page)  # before the job is written
    if path:
        found.write_job(path)
    if page:
        found.write_html(page)
    if output == "json":
        print_json(plain_recommendation(found, limit))
    elif output == "csv":
        print_csv(plain_recommendation(found, limit)["clusters"])
    else:
        echo(answer_text(found), cluster_table(found, limit))
        if is_drawn and (scatter := recommendation_scatter(found)):
            width = terminal_width(sys.stdout) or get_terminal_size().columns
            echo("\n".join(["", *plan_chart(scatter, width)]))
        if is_explained:
            echo("\n".join(explained_clusters(found, limit)))
    if path:
        place = f", for {found.best.region}" if found.best and found.has_regions else ""
        print_message(f"\nThe job is in {path}{place}; `launcher check {path}` checks it.")
    if page:
        print_message(f"\nThe picture is in {page}.")
    return 0 if found.best else 1
