"""AWS's own libraries, which AWS's toolkit starts; `request/toolkit` builds its hyperparameters.

Source of the options of AWS's libraries, and of the cases that SDK v2 refuses: fw_utils.py and
estimator.py of sagemaker 2.257.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.field_checks import groups_with_paths
from launcher.client.spec.job_parts import plain
from launcher.client.spec.roles import job_roles
from launcher.errors import FieldPath, Problem
from launcher.shared import Role, TrainerPart, choice_fix

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_PATH = ("distribution",)
_LIBRARIES = ("dataparallel", "modelparallel")
#: Strategies that may accompany a library of smdistributed, to start its processes.
_STARTERS = ("mpi", "torch_distributed")
_STARTERS_OF = {"modelparallel": _STARTERS, "dataparallel": ("torch_distributed",)}
#: TensorFlow's strategies, and Launcher's own start of each, which can be limited to a group.
_OWN_WORDS = {
    "parameter_server": "{parameter_server: {}}, which Launcher starts on one group",
    "multi_worker_mirrored_strategy": "multi_worker_mirrored, which Launcher starts on one group",
}
#: Keys of AWS's own libraries in SDK v2's `distribution`.
TOOLKIT_STRATEGIES = (
    "smdistributed",
    "parameter_server",
    "multi_worker_mirrored_strategy",
    "pytorchxla",
)


@dataclass(frozen=True, kw_only=True)
class Toolkit(Distribution):
    """One of AWS's own libraries, started by the toolkit in AWS's image as in SDK v2.

    Launcher itself does not run in such a job: no data service, no commands and no per-host
    failure reasons.

    strategies: SDK v2's `distribution` without its instance_groups; the role of the train group
        replaces those.
    """

    word: ClassVar[str] = ""
    sdk_v2_keys: ClassVar[tuple[str, ...]] = TOOLKIT_STRATEGIES
    runs_launcher: ClassVar[bool] = False
    has_whole_rank: ClassVar[bool] = False

    strategies: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategies", plain(self.strategies))

    @classmethod
    def noun(cls) -> str:
        """Return its name in messages about its fields."""
        return "a distribution"

    @classmethod
    def title(cls) -> str:
        """Return its name in messages about the job."""
        return "one of AWS's libraries"

    @classmethod
    def is_meant_by(cls, words: Set[object]) -> bool:
        """Return whether one of AWS's libraries is among the words."""
        return bool(words & set(TOOLKIT_STRATEGIES))

    @classmethod
    def expanded(cls, value: object, path: FieldPath) -> tuple[object, FieldPath]:
        """Take a written distribution as the strategies themselves."""
        return {"strategies": value if isinstance(value, Mapping) else {value: {}}}, path

    def written(self, fields: Mapping[str, object]) -> object:
        """Return the strategies, as SDK v2 writes them."""
        return fields["strategies"]

    @classmethod
    def schema(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON schema of the strategies, whose options the libraries know."""
        known = (*TOOLKIT_STRATEGIES, *_STARTERS)
        return {
            "type": "object",
            "properties": {name: {"type": "object"} for name in known},
            "additionalProperties": False,
            "anyOf": [{"required": [name]} for name in TOOLKIT_STRATEGIES],
        }

    @classmethod
    def from_sdk_v2(cls, strategies: Mapping[str, object]) -> Toolkit:
        """Take SDK v2's strategies, which the rules check with the rest of the job."""
        return cls(strategies=strategies)

    @property
    def toolkit_strategies(self) -> Mapping[str, Any]:
        """SDK v2's strategies for AWS's toolkit."""
        return self.strategies

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find problems with the strategies, and with what AWS's toolkit cannot have beside it."""
        yield from _choice_problems(self.strategies)
        yield from _library_problems(self.strategies)
        yield from _value_problems(self.strategies)
        yield from _group_problems(spec, self.strategies)
        yield from _problems_beside(spec)

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return a part that no runtime reads: Launcher does not run in such a job."""
        return TrainerPart(entry_point=spec.script)

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> None:
        """Return None: such a job has no document."""
        return


def _choice_problems(strategies: Mapping[str, object]) -> Iterator[Problem]:
    known = (*TOOLKIT_STRATEGIES, *_STARTERS)
    for name in strategies:
        if name not in known:
            what = f'"{name}" is not a distribution'
            yield Problem(path=(*_PATH, name), what=what, fix=choice_fix(name, known))
    chosen = [name for name in TOOLKIT_STRATEGIES if name in strategies]
    for name in chosen[1:]:
        what = f'"{name}" is given together with "{chosen[0]}"'
        yield Problem(path=(*_PATH, name), what=what, fix="keep one of them")
    allowed = _STARTERS_OF.get(_library(strategies) or "", ())
    for name in _STARTERS:
        if name in strategies and chosen and name not in allowed:
            what = f'"{name}" is given together with "{chosen[0]}", which starts its own processes'
            yield Problem(path=(*_PATH, name), what=what, fix="keep one of them")


def _library_problems(strategies: Mapping[str, object]) -> Iterator[Problem]:
    if "smdistributed" not in strategies:
        return
    path = (*_PATH, "smdistributed")
    libraries = strategies["smdistributed"]
    if not isinstance(libraries, Mapping) or len(libraries) != 1:
        what = "smdistributed does not name one library"
        fix = "write {dataparallel: {enabled: true}} or {modelparallel: {enabled: true}}"
        yield Problem(path=path, what=what, fix=fix)
        return
    (name,) = libraries
    if name not in _LIBRARIES:
        what = f'smdistributed has no "{name}"'
        yield Problem(path=(*path, name), what=what, fix=choice_fix(name, _LIBRARIES))
    starters = [each for each in _STARTERS if each in strategies]
    if name == "modelparallel" and len(starters) != 1:
        what = "modelparallel needs one of mpi and torch_distributed beside it"
        fix = 'write mpi: {enabled: true, processes_per_host: 8} beside "smdistributed"'
        yield Problem(path=(*path, name), what=what, fix=fix)


def _value_problems(strategies: Mapping[str, object]) -> Iterator[Problem]:
    """Check the known options of each strategy; unknown ones are left to the library."""
    for path, options in _options(strategies):
        if not isinstance(options, Mapping) or options.get("enabled") is not True:
            what = f'"{path[-1]}" is not enabled'
            yield Problem(path=path, what=what, fix="write {enabled: true}, or remove it")
            continue
        for field, declared, noun in (
            ("custom_mpi_options", str, "text"),
            ("parameters", Mapping, "a mapping"),
            ("processes_per_host", int, "a whole number"),
        ):
            value = options.get(field)
            if value is not None and (not isinstance(value, declared) or value is True):
                what = f"{field} is not {noun}"
                yield Problem(path=(*path, field), what=what, fix=f"write {noun}")


def _options(strategies: Mapping[str, object]) -> Iterator[tuple[FieldPath, Any]]:
    for name, options in strategies.items():
        if name != "smdistributed":
            yield (*_PATH, name), options
        elif isinstance(options, Mapping):
            yield from (((*_PATH, name, library), each) for library, each in options.items())


def _group_problems(spec: JobSpec, strategies: Mapping[str, object]) -> Iterator[Problem]:
    if not spec.instance_groups:
        return
    if (lone := _without_groups(strategies)) is not None:
        yield Problem(
            path=(*_PATH, lone),
            about=(("instance_groups",),),
            what=f"AWS's toolkit cannot start {lone} on one instance group",
            fix=_fix_on_groups(lone),
        )
    roles, unclear = job_roles(spec)
    yield from unclear
    trainers = [name for name, role in roles.items() if role is Role.TRAIN]
    if not unclear and len(trainers) != 1:
        yield Problem(
            path=("instance_groups",),
            what=f"AWS's toolkit starts a distribution on one group, but {len(trainers)} train",
            fix='write "role: train" in one group, and "role: data" in the others',
        )


def _fix_on_groups(strategy: str) -> str:
    """Suggest Launcher's own start of a strategy, or another one, for a job of several groups."""
    own = _OWN_WORDS.get(strategy, "data_parallel, or mpi")
    return f"use instance_type and instance_count, or {own}"


def _without_groups(strategies: Mapping[str, object]) -> str | None:
    """Return the strategy that AWS's toolkit cannot start on a single group, or None."""
    if "torch_distributed" in strategies and _library(strategies) != "dataparallel":
        return "torch_distributed"
    return next((name for name in TOOLKIT_STRATEGIES[1:] if name in strategies), None)


def _problems_beside(spec: JobSpec) -> Iterator[Problem]:
    """Find uses of features that need Launcher to start the hosts."""
    if spec.data_service is not None:
        what = "a data service cannot serve AWS's libraries: Launcher does not start in their jobs"
        fix = "remove it, or use data_parallel, mpi or multi_worker_mirrored"
        yield Problem(path=("data_service",), about=(_PATH,), what=what, fix=fix)
    for path, group in groups_with_paths(spec):
        if group.command:
            name = group.instance_group_name
            what = f'group "{name}" has a command, which AWS\'s toolkit does not run'
            fix = "remove it; every host runs the script there"
            yield Problem(path=(*path, "command"), about=(_PATH,), what=what, fix=fix)


def _library(strategies: Mapping[str, object]) -> str | None:
    libraries = strategies.get("smdistributed")
    return next(iter(libraries), None) if isinstance(libraries, Mapping) else None
