"""The mutation score of the modules whose mistakes are hardest to see: `make mutants`.

cosmic-ray makes the mutants: the module with one operator, number or condition changed. Each is
tested in a fork of this process, which has imported everything but Launcher, so that a mutant takes
a fraction of a second; nothing on disk is changed. `[tool.mutants]` in pyproject.toml names the
parts, their modules and tests, and the least score.

    python tests/mutation_score.py [--sample N] [PART...]

--sample takes N mutants of each part, the same ones each time. Survivors are printed as
differences, and mutants whose tests had to be ended are counted: on a machine that is busy they say
nothing. Exits with 1 when a part's score is below the least one.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import importlib.machinery
import importlib.util
import io
import itertools
import multiprocessing
import os
import random
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import hypothesis
import pytest
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
#: What the tests import, so that no mutant has to wait for it.
_PRELOADED = ("hypothesis.extra.numpy", "numpy", "torch.utils.data", "yaml", "botocore.session")
#: Seconds, for a mutant that waits for ever.
_LONGEST_WAIT = 120
#: The first failure is enough: it need be neither small nor explained.
hypothesis.settings.register_profile(
    "mutants",
    max_examples=40,
    database=None,
    deadline=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Modules that are mutated, and the tests that should notice."""

    name: str
    modules: tuple[Path, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A module's source with one change."""

    module: Path
    operator: str
    source: str

    @property
    def difference(self) -> str:
        lines = difflib.unified_diff(
            self.module.read_text().splitlines(), self.source.splitlines(), lineterm="", n=0
        )
        changed = [line for line in lines if not line.startswith(("---", "+++"))]
        return "\n".join(f"    {line}" for line in changed)


class _Importer(importlib.machinery.SourceFileLoader):
    """Finds and loads the mutant in place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        name = ".".join(mutant.module.relative_to(ROOT).with_suffix("").parts)
        super().__init__(name, str(mutant.module))

    def find_spec(
        self, name: str, path: object = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, name: str) -> CodeType:
        return compile(self._mutant.source, self.path, "exec", dont_inherit=True)


def mutants_of(module: Path, operators: Sequence[str]) -> Iterator[Mutant]:
    """Every different mutant of a module, by the operators of these patterns."""
    original = module.read_text()
    seen = {original}
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments() or not any(re.search(each, name) for each in operators):
            continue
        occurrence = 0
        while (source := mutate_code(original, operator(), occurrence)) is not None:
            occurrence += 1
            if source not in seen:
                seen.add(source)
                yield Mutant(module=module, operator=name, source=source)


class Fate(Enum):
    """What became of a mutant; one that was ended waited for something that it does not do."""

    KILLED = "killed"
    ENDED = "ended"
    SURVIVED = "survived"


def fate(mutant: Mutant | None, tests: Sequence[str], cpu_seconds: int) -> Fate:
    """Whether the tests pass with the mutant; without one, whether they pass at all."""
    child = _FORK.Process(target=_test, args=(mutant, tests, cpu_seconds))
    child.start()
    child.join(_LONGEST_WAIT)
    if child.is_alive():
        child.kill()
        child.join()
        return Fate.ENDED
    return Fate.KILLED if child.exitcode else Fate.SURVIVED


def _test(mutant: Mutant | None, tests: Sequence[str], cpu_seconds: int) -> None:
    # An endless loop is noticed too; by the CPU's time, since the machine may be busy.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if mutant:
            sys.meta_path.insert(0, _Importer(mutant))  # type: ignore[arg-type]
        hypothesis.settings.load_profile("mutants")
        options = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        # A warning is an error in pyproject.toml; that of a plugin imported before is no test's.
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = pytest.main([*options, f"--rootdir={ROOT}", *(str(ROOT / test) for test in tests)])
    os._exit(code)


def measure(part: Part, settings: Mapping[str, Any], sample: int | None) -> float:
    """Print the part's survivors and its score by module; return its score in all."""
    seconds = settings["cpu_seconds"]
    if fate(None, part.tests, seconds) is not Fate.SURVIVED:
        raise SystemExit(f"{part.name}: the tests fail without any mutant: {part.tests}")
    every = [each for module in part.modules for each in mutants_of(module, settings["operators"])]
    chosen = every
    if sample and sample < len(every):
        numbers = random.Random(part.name).sample(range(len(every)), sample)
        chosen = [every[number] for number in sorted(numbers)]
    total: Counter[Fate] = Counter()
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        for module, mutants in itertools.groupby(chosen, lambda each: each.module):
            found: Counter[Fate] = Counter()
            tried = list(mutants)
            fates = pool.map(lambda each: fate(each, part.tests, seconds), tried)
            for mutant, its in zip(tried, fates, strict=True):
                found[its] += 1
                if its is not Fate.KILLED:
                    print(f"  {its.value} in {module.relative_to(ROOT)}: {mutant.operator}")
                    print(mutant.difference, flush=True)
            print(_row(module.relative_to(ROOT), found), flush=True)
            total += found
    print(_row(f"{part.name}, of {len(every)}", total), flush=True)
    return 1 - total[Fate.SURVIVED] / total.total()


def _row(name: object, found: Counter[Fate]) -> str:
    count, killed = found.total(), found.total() - found[Fate.SURVIVED]
    ended = f", {found[Fate.ENDED]} of them ended" if found[Fate.ENDED] else ""
    return f"{name!s:<56} {killed:>4} of {count:>4} killed  {killed / count:6.1%}{ended}"


def parts_of(settings: Mapping[str, Any]) -> list[Part]:
    return [
        Part(
            name=name,
            modules=tuple(path for glob in part["modules"] for path in sorted(ROOT.glob(glob))),
            tests=tuple(part["tests"]),
        )
        for name, part in settings["parts"].items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", type=int)
    parser.add_argument("parts", nargs="*")
    asked = parser.parse_args()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutants"]
    known = {part.name: part for part in parts_of(settings)}
    if unknown := set(asked.parts) - set(known):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name in _PRELOADED:
        importlib.import_module(name)
    wanted = [known[name] for name in asked.parts or known]
    scores = {part.name: measure(part, settings, asked.sample) for part in wanted}
    low = [name for name, score in scores.items() if score < settings["least_score"]]
    if low:
        print(f"below {settings['least_score']:.0%}: {', '.join(low)}")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
