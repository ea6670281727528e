"""Approve a job that costs money: show its plan, enforce the cost limit, confirm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from launcher.client.cli.options.shared_options import options
from launcher.client.cli.screen.verb_output import can_ask, echo, print_message, yes_option
from launcher.client.planning import CostPlan, cost_table, enforce_max_cost
from launcher.client.submit import JobDraft, source_problem
from launcher.errors import CloudError, NotSent, Problem, SpecError

#: --max-cost and --yes.
approval_options = options(
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0),
        metavar="DOLLARS",
        help="Refuse a job that may cost more than this on AWS.",
    ),
    yes_option("Submit a job that costs money without asking."),
)


def show_plan(plan: CostPlan, max_cost: float | None) -> None:
    """Print what a job may cost; refuse it when that exceeds `max_cost` dollars."""
    echo(cost_table(plan), err=True)
    print_message("")
    if max_cost is not None:
        enforce_max_cost(plan, max_cost, "--max-cost")


def confirm_source(draft: JobDraft, *, yes: bool) -> None:
    """Ask whether a source is sent that may have been chosen by mistake, unless `yes`.

    Raises SpecError where nobody can be asked, NotSent when the user declines.
    """
    for doubt in draft.doubts:
        print_message(f"warning: {doubt}")
    if not draft.doubts or yes:
        return
    if not can_ask():
        raise SpecError([source_problem(draft.doubts, "add --yes to send it")])
    if not click.confirm("Send this source?", default=False, err=True):
        raise NotSent(draft.name)


def confirm_job(draft: JobDraft, *, yes: bool) -> None:
    """Ask about a doubtful source, and about a job that costs money; return once the user confirms.

    Raises SpecError without a terminal, NotSent when the user declines.
    """
    confirm_source(draft, yes=yes)
    if yes or not draft.session.platform.bills:
        return
    if not can_ask():
        raise SpecError([_NO_TERMINAL])
    if not click.confirm(f"Send job {draft.name}?", default=True, err=True):
        raise NotSent(draft.name)


@contextmanager
def cancel_on_ctrl_c(name: str) -> Iterator[None]:
    """Turn Ctrl-C into NotSent in the block before a job is sent.

    Adds the hint to run locally instead to a CloudError.
    """
    try:
        yield
    except CloudError as error:
        error.add("  or: add --local to run the job on this machine")
        raise
    except (KeyboardInterrupt, click.Abort) as error:
        print_message("")  # the terminal has printed ^C on this line
        raise NotSent(name) from error


_NO_TERMINAL = Problem(
    what="the job costs money and needs confirmation, but stdin or stderr is not a terminal",
    where="launcher run",
    fix="add --yes to skip the confirmation; --max-cost DOLLARS limits the cost",
)
