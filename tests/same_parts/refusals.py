"""Wrong jobs, by each door of tests/bad_input, and both sides of each limit, by `run --dry-run`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from launcher.client.cli import main  # the console script's door, as pyproject.toml names it

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS / "bad_input"), str(TESTS / "spec")]

import test_bad_input as bad_input  # noqa: E402 (found by the line above)
from test_limits import LIMITS, ONE_HOST  # noqa: E402 (as above)

#: What a request needs, for jobs that leave it open.
_DEFAULTS = """\
role: arn:aws:iam::111122223333:role/Training
image_uri: 111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1
output_path: s3://my-bucket/output
"""


def cases() -> Mapping[str, Callable[[Path], Any]]:
    wrong = {f"bad {name}": partial(_refusal, name) for name in bad_input.CASES}
    return {
        **wrong,
        **{f"allowed {name}": partial(_limit, row[0]) for name, row in LIMITS.items()},
        **{f"refused {name}": partial(_limit, row[1]) for name, row in LIMITS.items()},
    }


def _refusal(name: str, folder: Path) -> Any:
    outcome = bad_input.put(bad_input.CASES[name], folder)
    told = [{"what": each.what, "where": each.where, "fix": each.fix} for each in outcome.told]
    left = len(outcome.left_files) + len(outcome.left_processes)
    return {"problems": len(told), "left": left, "told": told}


def _limit(changes: Mapping[str, Any], folder: Path) -> Any:
    (folder / "train.py").write_text("print(1)\n")
    (folder / "m.py").write_text("def f():\n    return []\n")
    (folder / "job.yaml").write_text(ONE_HOST.replace(**{"source_dir": ".", **changes}).to_yaml())
    home = Path(os.environ["LAUNCHER_HOME"])
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(_DEFAULTS)
    os.chdir(folder)
    result = CliRunner().invoke(main, ["run", "--dry-run", "--name", "job", "-o", "json"])
    answer = json.loads(result.stdout or "{}")
    problems = answer.get("error", {}).get("problems", [])
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    return {
        "exit_code": result.exit_code,
        "problems": len(problems),
        "told": problems,
        "warnings": warnings,
    }
