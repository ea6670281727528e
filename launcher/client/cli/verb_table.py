"""The table of verbs, none of which it imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

import click


@dataclass(frozen=True, kw_only=True)
class Verb:
    """Location and summary of a verb.

    home: "module:function" in this package; line: the first line of its help, which a shell
    shows beside the verb without importing it (a test keeps the two equal). subcommands: the
    commands of one more word, which begin with the verb.
    """

    home: str
    line: str
    subcommands: Mapping[str, Verb] = field(default_factory=dict)

    def load(self) -> click.Command:
        """Import the verb and return its command."""
        module, _, function = self.home.partition(":")
        command: click.Command = getattr(
            import_module(f"launcher.client.cli.verbs.{module}"), function
        )
        return command


_CUT_SHOW = Verb(
    home="plan_cut_show:show", line="Show a partition file written by `launcher plan cut`."
)
_PLAN = {
    "types": Verb(
        home="plan_types:types", line="Show instance types with their figures and dated prices."
    ),
    "measure": Verb(
        home="plan_measure:measure",
        line="Measure what samples cost on this machine, and write a workload.",
    ),
    "cut": Verb(
        home="plan_cut:cut",
        line="Find the best pipeline cuts for a task's model.",
        subcommands={"show": _CUT_SHOW},
    ),
}

#: Verbs by what they are for, in the order of `launcher --help`.
VERB_GROUPS = {
    "Daily": {
        "init": Verb(home="init:init", line="Write a first job, ready to run."),
        "check": Verb(home="check:check", line="Report what works here and what does not."),
        "run": Verb(home="run:run", line="Run a job and follow it to its end."),
        "rerun": Verb(
            home="rerun:rerun", line="Run job NAME again, with the code that it was sent with."
        ),
        "wait": Verb(home="wait:wait", line="Wait until jobs NAMES have ended."),
        "stop": Verb(home="stop:stop", line="Stop jobs NAMES, or all jobs."),
        "download": Verb(
            home="download:download",
            line="Download the model and output of job NAME, or PATH of a host.",
        ),
    },
    "Look": {
        "list": Verb(home="list:list_jobs", line="List jobs, newest first."),
        "status": Verb(home="status:status", line="Show the progress or outcome of job NAME."),
        "logs": Verb(home="logs:logs", line="Print the logs of job NAME."),
        "metrics": Verb(home="metrics:metrics", line="Show the metrics of job NAME over time."),
        "ui": Verb(home="ui:ui", line="Show the jobs in a browser, live."),
        "report": Verb(home="report:report", line="Write a report on job NAME as one HTML file."),
        "diagnose": Verb(
            home="diagnose:diagnose",
            line="Say what limits the steps of job NAME, and what to change.",
        ),
        "compare": Verb(
            home="compare:compare",
            line="Put jobs NAMES side by side: step time, throughput, prices, and what was idle.",
        ),
    },
    "Plan": {
        "plan": Verb(
            home="plan:plan",
            line="Compare clusters for a workload: step time, bottleneck and cost.",
            subcommands=_PLAN,
        ),
    },
    "Machine": {
        "exec": Verb(
            home="exec:exec_in_host",
            line="Run COMMAND, or a shell, in a running host of local job NAME.",
        ),
        "rm": Verb(
            home="rm:rm", line="Remove jobs NAMES of this machine, or old ones, with their results."
        ),
        "endpoint": Verb(home="endpoint:endpoint", line="Serve SageMaker's API on this machine."),
        "completion": Verb(
            home="completion:completion", line="Print the script that lets SHELL complete launcher."
        ),
    },
}
VERBS = {name: verb for verbs in VERB_GROUPS.values() for name, verb in verbs.items()}

#: Former verbs, and what to use instead; to be forgotten by version 0.3.
FORMER_VERBS = {
    "schema": "`launcher check --schema` prints it",
    "config": "`launcher check --config [JOB_FILE]` shows it",
    "catalog": "`launcher plan types [TYPE]` shows instance types, with --update it updates them",
    "profile": "`launcher plan measure` measures samples and writes the workload",
    "partition": "`launcher plan cut TASK` finds cuts, `launcher plan cut show FILE` shows them",
    "shell": "`launcher exec NAME`, without a command, opens a shell",
    "cp": "`launcher download NAME PATH --to TARGET --host HOST` copies from a host",
    "prune": "`launcher rm --older-than AGE` removes old jobs",
    "interrupt": "`launcher stop --spot NAME` reclaims spot instances",
    "probe": "`launcher run examples/probe/job.yaml --local` measures what it did (docs/probe.md)",
}
