"""Every rule refuses something: legal jobs are broken in one place, and told of just that."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from job_strategies import job_specs
from rule_mutants import MUTANTS
from test_limits import LIMITS, ONE_HOST

import launcher.client.spec
from launcher.client.request import SourceTree, find_limits
from launcher.client.spec import (
    DataService,
    InstanceGroup,
    JobSpec,
    ModelParallel,
    MultiWorkerMirrored,
    as_one_rank,
    check,
)
from launcher.errors import Problem, SpecError
from launcher.shared import Role

RULES = Path(launcher.client.spec.__file__).parent
BAD = Path(__file__).parents[1] / "spec" / "bad"
SCRIPTS = {
    "train.py": "",
    "fits.py": "import keras\nkeras.Sequential([]).fit([0.0], [0.0])\n",
    "broken.py": "def f(:",
    "pipeline.py": "def train_set(): ...\ndef test_set(): ...\n",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of the code and of the channels."""
    source = tmp_path_factory.mktemp("source")
    for name, text in SCRIPTS.items():
        (source / name).write_text(text)
    return source, tmp_path_factory.mktemp("data")


def told(spec: JobSpec) -> tuple[list[str], list[str]]:
    """(what is wrong, what is warned of)."""
    try:
        return [], list(check(spec, SourceTree(spec), limits=find_limits))
    except SpecError as error:
        return [problem.what for problem in error.problems], []


@settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # to make a failing job smaller takes minutes
)
@given(data=st.data())
def test_each_broken_rule_is_reported(places: tuple[Path, Path], data: st.DataObject) -> None:
    spec = data.draw(job_specs(*places))
    assert told(spec)[0] == []
    for mutant in MUTANTS:
        errors, warnings = told(mutant.break_rule(spec))
        found = warnings if mutant.is_warning else errors
        assert any(mutant.says in what for what in found), (mutant.says, found)
        assert not (mutant.is_warning and errors), (mutant.says, errors)


def _sites() -> Iterator[tuple[str, int, int]]:
    """Each place below launcher/client/spec that finds a problem: file, first and last line."""
    for path in sorted(RULES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _makes_problem(node):
                assert node.end_lineno
                yield str(path), node.lineno, node.end_lineno


def _makes_problem(call: ast.Call) -> bool:
    """Whether a call makes the problem of a field; those of files have no path."""
    is_problem = getattr(call.func, "id", "") == Problem.__name__
    return is_problem and any(keyword.arg == "path" for keyword in call.keywords)


def test_every_problem_is_brought_about_by_a_mutant_or_a_bad_job(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever adds a rule adds a job that breaks it: in LIMITS, in bad/, or in MUTANTS."""
    made: set[tuple[str, int]] = set()

    def noted(**parts: Any) -> Problem:
        caller = sys._getframe(1)
        made.add((caller.f_code.co_filename, caller.f_lineno))
        return Problem(**parts)

    for name, module in list(sys.modules.items()):
        if name.startswith("launcher.client.spec.") and hasattr(module, "Problem"):
            monkeypatch.setattr(module, "Problem", noted)
    _put_everything(places[0])

    unmade = [
        f"{Path(file).relative_to(RULES)}:{first}"
        for file, first, last in _sites()
        if not any((file, line) in made for line in range(first, last + 1))
    ]
    assert made
    assert unmade == []


def _put_everything(source: Path) -> None:
    legal = JobSpec(entry_point="train.py", source_dir=str(source), instance_type="local")
    for changed in (mutant.break_rule(legal) for mutant in MUTANTS):
        told(changed)
    for _, refused, _ in LIMITS.values():
        told(ONE_HOST.replace(**{"source_dir": str(source), **refused}))
    told(ONE_HOST)  # without a script
    command = InstanceGroup("command", "local", role=Role.COMMAND)
    told(legal.replace(instance_type=None, instance_groups=[command]))
    told(legal.replace(entry_point="broken.py"))
    fitting = legal.replace(entry_point="fits.py", instance_count=2)
    told(fitting.replace(distribution=MultiWorkerMirrored()))
    told(legal.replace(data_service=DataService(datasets=("broken:f",))))
    scripts = [InstanceGroup(name, "local", role=Role.SCRIPT) for name in ("one", "two")]
    staged = ModelParallel(partitions=2, processes_per_host=2, starts=["head"])
    for whole in ({"instance_type": None, "instance_groups": scripts}, {"distribution": staged}):
        with contextlib.suppress(SpecError):
            as_one_rank(legal.replace(**whole), "pdb")
    for path in BAD.glob("*.yaml"):
        with contextlib.suppress(SpecError):  # of the writing, before any rule
            told(JobSpec.from_yaml(path))
