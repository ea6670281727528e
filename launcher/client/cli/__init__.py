"""The command line: one file per verb; results go to stdout, messages to stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import launcher
from launcher.client.cli.verb_group import Verbs, open_streams
from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.cli.options.local_options import LocalChoices
    from launcher.client.cli.options.send_job import JobSender
    from launcher.client.cli.screen.charts import (
        line_chart,
        metric_charts,
        plan_chart,
    )
    from launcher.client.cli.screen.ctrl_c import Detached, detach_on_ctrl_c
    from launcher.client.cli.screen.line_printer import (
        JsonLinePrinter,
        LinePrinter,
        LineSelection,
        WantedLines,
    )
    from launcher.client.cli.screen.live_view import JobView, terminal_lines
    from launcher.client.cli.screen.verb_output import echo, terminal_width, with_exit_code
    from launcher.client.cli.verb_table import VERB_GROUPS, VERBS

__getattr__ = open_door(__name__)


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(launcher.__version__, prog_name="launcher")
def main() -> None:
    """Run training jobs on clusters of CPU and GPU hosts; the same job runs on this machine.

    Verbs that read a job NAME take a unique beginning of it, `latest`, or the newest job if there
    is none.

    Exit codes: 0 completed, 1 failed, 2 usage or specification, 3 stopped, 4 credentials or cloud,
    5 no capacity, 124 a wait timed out.
    """
    open_streams()
