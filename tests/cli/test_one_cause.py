"""run, status, list, report and a notebook's cell tell one cause of a failed job."""

import json
import os
import re
from html import unescape

import pytest

from launcher.client.jobs import Job
from launcher.client.sessions import LocalSession
from launcher.shared import visible_gpus

OWN_FILE = """\
import os, sys
root = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
with open(root + "/output/failure", "w") as file:
    file.write({text!r})
sys.exit(1)
"""
TRACED = "Traceback (most recent call last):\n  File 'a.py', line 1\nValueError: bad row 7"


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        pytest.param(
            OWN_FILE.format(text="the table lacks column 'label'\nof part 7"),
            "the table lacks column 'label'",
            id="own file",
        ),
        pytest.param(OWN_FILE.format(text=f"\n{TRACED}\n"), "ValueError: bad row 7", id="traced"),
        pytest.param(
            OWN_FILE.format(text="algo-9 is not known"), "algo-9 is not known", id="another host"
        ),
        pytest.param("import sys; sys.exit(3)", "exit code 3", id="exit code"),
        pytest.param("raise KeyError('label')", "KeyError: 'label'", id="raised"),
        pytest.param(
            "import argparse; argparse.ArgumentParser('t').parse_args(['--x'])",
            "unrecognized arguments: --x (exit code 2)",
            id="usage",
        ),
        pytest.param(
            "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))\nopened = []\n"
            "while True: opened.append(open('/dev/null'))",
            "OSError: [Errno 24] Too many open files: '/dev/null'",
            id="descriptors",
        ),
        pytest.param(
            "raise AssertionError('Torch not compiled with CUDA enabled')",
            "AssertionError: Torch not compiled with CUDA enabled (this machine has no GPU)",
            id="cuda",
            marks=pytest.mark.skipif(bool(visible_gpus(os.environ)), reason="there is a GPU"),
        ),
        pytest.param("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL", id="killed"),
    ],
)
def test_all_verbs_tell_one_cause(terminal, script, cause):
    ran = terminal("run", terminal.write(script), "--local", "--name", "job-1")
    assert ran.exit_code == 1
    (headline,) = re.findall(r"^Cause    (.*)$", ran.stdout, re.MULTILINE)
    place, cause = "algo-1 (homogeneousCluster): ", re.escape(cause)
    assert re.fullmatch(rf"{re.escape(place)}{cause}( \(memory was not short: .*\))?", headline)
    cause = headline.removeprefix(place)
    status = json.loads(terminal("status", "job-1", "-o", "json").stdout)["failure"]
    assert (status["host"], status["cause"]) == ("algo-1", cause)
    shown = headline if len(headline) <= 60 else headline[:59] + "…"
    assert shown in terminal("list").stdout
    page = terminal.folder / "job-1.html"
    assert terminal("report", "job-1", "--out", page).exit_code == 0
    assert f"<b>Cause</b> {headline}</p>" in unescape(page.read_text())
    job = Job("job-1", LocalSession(terminal.home))
    assert headline in unescape(job._repr_html_())
    assert job.failure().headline == headline
