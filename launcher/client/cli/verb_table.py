"""The table of verbs, none of which it imports."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import click


@dataclass(frozen=True, kw_only=True)
class Verb:
    """Location and summary of a verb.

    home: "module:function" in this package; line: the first line of its help, which a shell
    shows beside the verb without importing it (a test keeps the two equal).
    """

    home: str
    line: str

    def load(self) -> click.Command:
        """Import the verb and return its command."""
        module, _, function = self.home.partition(":")
        command: click.Command = getattr(
            import_module(f"launcher.client.cli.verbs.{module}"), function
        )
        return command


#: In the order of a job's life.
VERBS = {
    "init": Verb(home="init:init", line="Write a first job, ready to run."),
    "check": Verb(home="check:check", line="Report what works here and what does not."),
    "catalog": Verb(
        home="catalog:catalog", line="Show instance types with their figures and dated prices."
    ),
    "profile": Verb(
        home="plan_measure:profile",
        line="Measure what samples cost on this machine, and write a workload for `launcher plan`.",
    ),
    "plan": Verb(
        home="plan:plan", line="Compare clusters for a workload: step time, bottleneck and cost."
    ),
    "partition": Verb(
        home="plan_cut:partition", line="Find the best pipeline cuts for a task's model."
    ),
    "run": Verb(home="run:run", line="Run a job and follow it to its end."),
    "rerun": Verb(
        home="rerun:rerun", line="Run job NAME again, with the code that it was sent with."
    ),
    "list": Verb(home="list:list_jobs", line="List jobs, newest first."),
    "status": Verb(home="status:status", line="Show the progress or outcome of job NAME."),
    "logs": Verb(home="logs:logs", line="Print the logs of job NAME."),
    "metrics": Verb(home="metrics:metrics", line="Show the metrics of job NAME over time."),
    "diagnose": Verb(
        home="diagnose:diagnose", line="Say what limits the steps of job NAME, and what to change."
    ),
    "compare": Verb(
        home="compare:compare",
        line="Put jobs NAMES side by side: step time, throughput, prices, and what was idle.",
    ),
    "report": Verb(home="report:report", line="Write a report on job NAME as one HTML file."),
    "exec": Verb(
        home="exec:exec_in_host",
        line="Run COMMAND, or a shell, in a running host of local job NAME.",
    ),
    "wait": Verb(home="wait:wait", line="Wait until jobs NAMES have ended."),
    "download": Verb(
        home="download:download",
        line="Download the model and output of job NAME, or PATH of a host.",
    ),
    "stop": Verb(home="stop:stop", line="Stop jobs NAMES, or all jobs."),
    "rm": Verb(
        home="rm:rm", line="Remove jobs NAMES of this machine, or old ones, with their results."
    ),
    "endpoint": Verb(home="endpoint:endpoint", line="Serve SageMaker's API on this machine."),
    "completion": Verb(
        home="completion:completion", line="Print the script that lets SHELL complete launcher."
    ),
}

#: Former verbs, and what to use instead; to be forgotten by version 0.3.
FORMER_VERBS = {
    "schema": "`launcher check --schema` prints it",
    "config": "`launcher check --config [JOB_FILE]` shows it",
    "shell": "`launcher exec NAME`, without a command, opens a shell",
    "cp": "`launcher download NAME PATH --to TARGET --host HOST` copies from a host",
    "prune": "`launcher rm --older-than AGE` removes old jobs",
    "interrupt": "`launcher stop --spot NAME` reclaims spot instances",
    "probe": "`launcher run examples/probe/job.yaml --local` measures what it did (docs/probe.md)",
}
