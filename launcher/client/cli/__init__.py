"""The command line: one file per verb; results go to stdout, messages to stderr."""

from __future__ import annotations

import click

import launcher
from launcher.client.cli.verb_group import Verbs, open_streams


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(launcher.__version__, prog_name="launcher")
def main() -> None:
    """Run training jobs on clusters of CPU and GPU hosts; the same job runs on this machine.

    Exit codes: 0 completed, 1 failed, 2 usage or specification, 3 stopped, 4 credentials or cloud,
    5 no capacity, 124 a wait timed out.
    """
    open_streams()
