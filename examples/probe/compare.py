"""Compare a probe's answers with those in answers.json, which docs/probe.md explains.

    launcher run job.yaml --local --name my-probe
    python compare.py my-probe network --local

The exit code is 1 if a platform's answers differ; those on the machine are only printed.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import launcher

ANSWERS = Path(__file__).parent / "answers.json"


def main(args: argparse.Namespace) -> int:
    session = launcher.LocalSession() if args.local else launcher.AwsSession()
    answers, machine = collect(launcher.Job(args.job, session))
    known = json.loads(ANSWERS.read_text())
    if args.store:
        known[args.platform] = answers
        ANSWERS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    expected = known[args.platform]
    for question, answer in answers.items():
        if answer == expected.get(question):
            print(f"{question}\n  as {args.platform}: {shown(answer)}")
        else:
            print(f"{question}\n  {args.job}: {shown(answer)}")
            print(f"  {args.platform}: {shown(expected.get(question))}")
    for question, answer in machine.items():
        print(f"{question}\n  {shown(answer)}")
    return int(answers != expected)


def collect(job: launcher.Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers on the platform, without what differs by run, and those on the machine."""
    description = job.description()
    with tempfile.TemporaryDirectory() as folder:
        kept = {path.name: contents(path) for path in job.download_artifacts(Path(folder))}
    hosts = {
        answers["host"]: answers
        for name, text in sorted(kept.get("output.tar.gz", {}).items())
        if name.startswith("probe-")
        for answers in [json.loads(text)]
    }
    if not hosts:
        sys.exit(f"{job.name} left no answers: see `launcher logs {job.name}`")
    platform = by_question({host: answers["platform"] for host, answers in hosts.items()})
    wildcard = "Can every host bind the same port on all its addresses?"
    variables = "Which variables are in the environment?"
    states = [each["Status"] for each in description["SecondaryStatusTransitions"]]
    platform |= {
        wildcard: all(platform[wildcard].values()),  # on a shared network, any of them may be first
        variables: {host: sorted(values) for host, values in platform[variables].items()},
        "How are hosts numbered over the groups?": {
            host: answers["group"] for host, answers in hosts.items()
        },
        "What is left of the hosts' files?": {
            name: {"files": sorted(files), "same-name.txt is of": files.get("same-name.txt")}
            for name, files in kept.items()
        },
        "Which states does the job go through?": states,
    }
    machine = by_question({host: answers["machine"] for host, answers in hosts.items()})
    return without_names(platform, job.name), machine


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        return {
            member.name: file.read().decode()
            for member in tar.getmembers()
            if (file := tar.extractfile(member))
        }


def by_question(hosts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    questions = next(iter(hosts.values()))
    return {each: {host: answers[each] for host, answers in hosts.items()} for each in questions}


def without_names(answers: dict[str, Any], job: str) -> dict[str, Any]:
    """The answers without the names of the job, of this machine, and of its loopback addresses."""
    text = json.dumps(answers).replace(job, "<job>")
    text = text.replace(json.dumps(socket.gethostname()), '"<this machine>"')
    return dict(json.loads(re.sub(r"127\.\d+\.0\.(\d)", r"127.<slot>.0.\1", text)))


def shown(answer: Any) -> str:
    """An answer on one line; hosts that agree have one."""
    if isinstance(answer, dict) and len(answer) > 1:
        first, *others = answer.values()
        answer = first if all(other == first for other in others) else answer
    return json.dumps(answer, sort_keys=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job")
    parser.add_argument("platform", help="process, sandbox or network: this machine's isolations")
    parser.add_argument("--local", action="store_true", help="the job is of this machine")
    parser.add_argument("--store", action="store_true", help="keep the answers as the platform's")
    sys.exit(main(parser.parse_args()))
