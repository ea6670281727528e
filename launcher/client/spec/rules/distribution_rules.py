"""Rules for MPI and AWS's own libraries; `parallel` has those for torchrun's distributions.

Source of the options of AWS's libraries, and of the cases that SDK v2 refuses: fw_utils.py and
estimator.py of sagemaker 2.257.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.spec.distribution import TOOLKIT_STRATEGIES, Mpi, Toolkit
from launcher.client.spec.job_spec import JobSpec
from launcher.client.spec.roles import assign_roles
from launcher.client.spec.rules.machine_rules import groups_with_paths
from launcher.client.spec.spec_findings import FieldPath, SpecFinding, choice_fix
from launcher.shared import Role

_PATH = ("distribution",)
#: Options of mpirun that Launcher sets itself.
_OWN_OPTIONS = ("--host", "-host", "-H", "--hostfile", "--machinefile", "-np", "--np", "-n", "-c")
_OWN_PARAMETERS = ("plm_rsh_agent", "plm_rsh_no_tree_spawn", "orte_leave_session_attached")
_LIBRARIES = ("dataparallel", "modelparallel")
#: Strategies that may accompany AWS's model parallel library, to start its processes.
_STARTERS = ("mpi", "torch_distributed")


def find_problems(spec: JobSpec) -> Iterator[SpecFinding]:
    """Find problems with an Mpi or a Toolkit distribution."""
    if isinstance(spec.distribution, Mpi):
        yield from _mpi_problems(spec.distribution)
    if isinstance(spec.distribution, Toolkit):
        strategies = spec.distribution.strategies
        yield from _choice_problems(strategies)
        yield from _library_problems(strategies)
        yield from _value_problems(strategies)
        yield from _group_problems(spec, strategies)
        yield from _problems_beside(spec)


def _mpi_problems(mpi: Mpi) -> Iterator[SpecFinding]:
    path = (*_PATH, "mpi")
    if mpi.processes_per_host is not None and mpi.processes_per_host < 1:
        what = f"processes_per_host is {mpi.processes_per_host}"
        yield SpecFinding(path=(*path, "processes_per_host"), what=what, fix="use 1 or more")
    for index, word in enumerate(mpi.custom_options):
        here = (*path, "custom_options", index)
        if word in (*_OWN_OPTIONS, *_OWN_PARAMETERS):
            what = f'mpirun\'s "{word}" is set by Launcher itself'
            yield SpecFinding(
                path=here, what=what, fix="remove it; use processes_per_host for counts"
            )
        elif not word.strip() or "\0" in word:
            yield SpecFinding(path=here, what="a word for mpirun is empty", fix="remove it")


def _choice_problems(strategies: Mapping[str, Any]) -> Iterator[SpecFinding]:
    known = (*TOOLKIT_STRATEGIES, *_STARTERS)
    for name in strategies:
        if name not in known:
            what = f'"{name}" is not a distribution'
            yield SpecFinding(path=(*_PATH, name), what=what, fix=choice_fix(name, known))
    chosen = [name for name in TOOLKIT_STRATEGIES if name in strategies]
    for name in chosen[1:]:
        what = f'"{name}" stands beside "{chosen[0]}"'
        yield SpecFinding(path=(*_PATH, name), what=what, fix="keep one of them")
    if _library(strategies) != "modelparallel":
        for name in _STARTERS:
            if name in strategies and chosen:
                what = f'"{name}" stands beside "{chosen[0]}", which starts its own processes'
                yield SpecFinding(path=(*_PATH, name), what=what, fix="keep one of them")


def _library_problems(strategies: Mapping[str, Any]) -> Iterator[SpecFinding]:
    if "smdistributed" not in strategies:
        return
    path = (*_PATH, "smdistributed")
    libraries = strategies["smdistributed"]
    if not isinstance(libraries, Mapping) or len(libraries) != 1:
        what = "smdistributed does not name one library"
        fix = "write {dataparallel: {enabled: true}} or {modelparallel: {enabled: true}}"
        yield SpecFinding(path=path, what=what, fix=fix)
        return
    (name,) = libraries
    if name not in _LIBRARIES:
        what = f'smdistributed has no "{name}"'
        yield SpecFinding(path=(*path, name), what=what, fix=choice_fix(name, _LIBRARIES))
    starters = [each for each in _STARTERS if each in strategies]
    if name == "modelparallel" and len(starters) != 1:
        what = "modelparallel needs one of mpi and torch_distributed beside it"
        fix = 'write mpi: {enabled: true, processes_per_host: 8} beside "smdistributed"'
        yield SpecFinding(path=(*path, name), what=what, fix=fix)


def _value_problems(strategies: Mapping[str, Any]) -> Iterator[SpecFinding]:
    """Check the known options of each strategy; unknown ones are left to the library."""
    for path, options in _options(strategies):
        if not isinstance(options, Mapping) or options.get("enabled") is not True:
            what = f'"{path[-1]}" is not enabled'
            yield SpecFinding(path=path, what=what, fix="write {enabled: true}, or remove it")
            continue
        for field, declared, noun in (
            ("custom_mpi_options", str, "text"),
            ("parameters", Mapping, "a mapping"),
            ("processes_per_host", int, "a whole number"),
        ):
            value = options.get(field)
            if value is not None and (not isinstance(value, declared) or value is True):
                what = f"{field} is not {noun}"
                yield SpecFinding(path=(*path, field), what=what, fix=f"write {noun}")


def _options(strategies: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    for name, options in strategies.items():
        if name != "smdistributed":
            yield (*_PATH, name), options
        elif isinstance(options, Mapping):
            yield from (((*_PATH, name, library), each) for library, each in options.items())


def _group_problems(spec: JobSpec, strategies: Mapping[str, Any]) -> Iterator[SpecFinding]:
    if not spec.instance_groups:
        return
    if (lone := _without_groups(strategies)) is not None:
        yield SpecFinding(
            path=(*_PATH, lone),
            about=(("instance_groups",),),
            what=f"AWS's toolkit cannot start {lone} on one instance group",
            fix="use instance_type and instance_count, or data_parallel, or mpi",
        )
    roles, unclear = assign_roles(spec.groups, has_data_service=False)
    yield from unclear
    trainers = [name for name, role in roles.items() if role is Role.TRAIN]
    if not unclear and len(trainers) != 1:
        yield SpecFinding(
            path=("instance_groups",),
            what=f"AWS's toolkit starts a distribution on one group, and {len(trainers)} train",
            fix='write "role: train" in one group, and "role: data" in the others',
        )


def _without_groups(strategies: Mapping[str, Any]) -> str | None:
    """Return the strategy that AWS's toolkit cannot start on a single group, or None."""
    if "torch_distributed" in strategies:
        return "torch_distributed"
    return next((name for name in TOOLKIT_STRATEGIES[1:] if name in strategies), None)


def _problems_beside(spec: JobSpec) -> Iterator[SpecFinding]:
    """Find uses of features that need Launcher to start the hosts."""
    if spec.data_service is not None:
        what = "a data service beside one of AWS's libraries: nothing of Launcher runs there"
        fix = "remove it, or use data_parallel or mpi"
        yield SpecFinding(path=("data_service",), about=(_PATH,), what=what, fix=fix)
    for path, group in groups_with_paths(spec):
        if group.command:
            what = (
                f'group "{group.instance_group_name}" has a command beside one of AWS\'s libraries'
            )
            fix = "remove it; every host runs the script there"
            yield SpecFinding(path=(*path, "command"), about=(_PATH,), what=what, fix=fix)


def _library(strategies: Mapping[str, Any]) -> str | None:
    libraries = strategies.get("smdistributed")
    return next(iter(libraries), None) if isinstance(libraries, Mapping) else None
