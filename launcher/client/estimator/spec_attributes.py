"""The fields of a JobSpec as arguments and attributes of an Estimator, by SDK v2's names.

estimator.instance_count = 2   # estimator.spec.instance_count

A constructor's signature names every field, and any other argument gets a clear answer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from functools import partial
from typing import Any, Generic, TypeVar, cast, overload

from launcher.client.estimator.sdk_v2_types import (
    as_groups,
    as_hook,
    as_metrics,
    as_path,
    as_paths,
    as_request_part,
    as_rules,
    as_tags,
)
from launcher.client.spec import NOT_TAKEN, JobSpec, as_distribution, field_doc, hint_for_name
from launcher.errors import Problem, SpecError

Kept = TypeVar("Kept")
Given = TypeVar("Given", contravariant=True)

#: The fields that an Estimator has, by name: `fit` takes the inputs, and no user writes `where`.
FIELDS: Mapping[str, Field[Any]] = {
    part.name: part for part in fields(JobSpec) if part.name not in ("inputs", "where")
}
#: Fields that are methods of an Estimator, as in SDK v2; they can be set like the others.
METHODS = frozenset({"hyperparameters", "enable_network_isolation", "enable_remote_debug"})
#: The values that SDK v2 takes in another form than a JobSpec.
_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "entry_point": partial(as_path, where="entry_point"),
    "source_dir": partial(as_path, where="source_dir"),
    "dependencies": as_paths,
    "distribution": as_distribution,
    "tags": as_tags,
    "metric_definitions": as_metrics,
    "tensorboard_output_config": as_request_part,
    "debugger_hook_config": as_hook,
    "profiler_config": as_request_part,
}
_EMPTY = JobSpec()
#: Attributes of each estimator beside the fields of its job.
_KEPT = frozenset({"spec", "sagemaker_session"})


def accepted_type(part: Field[Any]) -> str:
    """Return the type that an Estimator accepts for a field; None stands for an empty default."""
    convert = {**_CONVERSIONS, "instance_groups": as_groups, "rules": as_rules}.get(part.name)
    function = getattr(convert, "func", convert)
    accepted = str(next(iter(function.__annotations__.values())) if function else part.type)
    is_optional = part.default in (None, ()) or part.default is MISSING
    return f"{accepted} | None" if is_optional and "None" not in accepted else accepted


def described(spec: JobSpec, given: Mapping[str, Any]) -> JobSpec:
    """Return the job with some fields as an Estimator accepts them; None is a field's default.

    SDK v2's distribution names the group that trains, and its rules are of two kinds.
    """
    made = {
        name: getattr(_EMPTY, name)
        if value is None
        else _CONVERSIONS.get(name, lambda value: value)(value)
        for name, value in given.items()
    }
    if given.keys() & {"instance_groups", "distribution"}:
        groups = made.get("instance_groups", spec.instance_groups)
        made["instance_groups"] = as_groups(groups, given.get("distribution"))
    if "rules" in given:
        made["rules"], of_profiler = as_rules(made["rules"])
        if of_profiler:
            made["profiler_rules"] = (*made.get("profiler_rules", ()), *of_profiler)
    return spec.replace(**made)


class SpecAttribute(Generic[Kept, Given]):
    """One field of the JobSpec. Kept: the type that is read; Given: the types that can be set."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__doc__ = field_doc(FIELDS[name])

    @overload
    def __get__(self, estimator: None, owner: type) -> SpecAttribute[Kept, Given]: ...
    @overload
    def __get__(self, estimator: SpecAttributes, owner: type) -> Kept: ...
    def __get__(self, estimator: SpecAttributes | None, owner: type) -> Any:
        return self if estimator is None else getattr(estimator.spec, self.name)

    def __set__(self, estimator: SpecAttributes, value: Given) -> None:
        estimator.spec = described(estimator.spec, {self.name: value})


class SpecAttributes:
    """The fields of `spec` as attributes; a change takes effect in the next `fit`.

    `hyperparameters`, `enable_network_isolation` and `enable_remote_debug` are methods, as in SDK
    v2; they are set like the others.
    """

    spec: JobSpec
    sagemaker_session: object

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; one that would change nothing raises AttributeError.

        A subclass of another package may have attributes of its own.
        """
        if name in METHODS:
            self.spec = described(self.spec, {name: value})
            return
        is_read = name in _KEPT or name.startswith("_") or hasattr(type(self), name)
        is_ours = name in NOT_TAKEN or type(self).__module__.startswith(__package__)
        if is_ours and not is_read:
            what = f"no job of {type(self).__name__} reads the attribute {name!r}"
            raise AttributeError(what + hint_for_name(name, dir(self)))
        super().__setattr__(name, value)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters, with their types; a change of the mapping takes effect."""
        return cast("dict[str, Any]", self.spec.hyperparameters)

    def set_hyperparameters(self, **hyperparameters: object) -> None:
        """Set hyperparameters, replacing those with the same names."""
        values = {**self.spec.hyperparameters, **hyperparameters}
        self.spec = self.spec.replace(hyperparameters=values)

    def enable_network_isolation(self) -> bool:
        """Return whether the containers are cut off from the network outside the job."""
        return bool(self.spec.enable_network_isolation)

    def get_remote_debug_config(self) -> dict[str, bool] | None:
        """Return the request's RemoteDebugConfig; None if nothing is sent."""
        enabled = self.spec.enable_remote_debug
        return None if enabled is None else {"EnableRemoteDebug": enabled}

    def get_session_chaining_config(self) -> dict[str, bool] | None:
        """Return the request's SessionChainingConfig; None if nothing is sent."""
        enabled = self.spec.enable_session_tag_chaining
        return None if enabled is None else {"EnableSessionTagChaining": enabled}

    def get_vpc_config(self) -> dict[str, list[str]] | None:
        """Return the request's VpcConfig; None without one."""
        subnets, groups = self.spec.subnets, self.spec.security_group_ids
        if not subnets or not groups:
            return None
        return {"Subnets": list(subnets), "SecurityGroupIds": list(groups)}


Constructor = TypeVar("Constructor", bound=Callable[..., None])


def refusing_unknown(
    without: Collection[str] = (),
) -> Callable[[Constructor], Constructor]:
    """Return a decorator of a constructor; an unknown argument then raises TypeError.

    The error names a similar argument. Unsupported arguments of SDK v2 are ignored if they are
    empty, and raise SpecError otherwise. The constructor's signature names every field of a job
    but those in `without`, and the session.
    """

    def decorate(constructor: Constructor) -> Constructor:
        signature = _full_signature(constructor, without)
        known = signature.parameters.keys() - {"self"}

        def checked(*given: object, **named: object) -> None:
            _refuse({name: value for name, value in named.items() if name not in known}, known)
            constructor(*given, **{name: named[name] for name in named if name in known})

        functools.update_wrapper(checked, constructor)
        vars(checked)["__signature__"] = signature
        return cast(Constructor, checked)

    return decorate


def _full_signature(
    constructor: Callable[..., None], without: Collection[str]
) -> inspect.Signature:
    """Return a constructor's signature, in which each field of a job is a parameter."""
    own = inspect.signature(constructor)
    named = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    left = [part for name, part in FIELDS.items() if name not in {*own.parameters, *without}]
    session = _keyword("sagemaker_session", None, "object")
    return own.replace(parameters=[*named, *map(_keyword_of, left), session])


def _keyword_of(part: Field[Any]) -> inspect.Parameter:
    return _keyword(
        part.name, None if part.default is MISSING else part.default, accepted_type(part)
    )


def _keyword(name: str, default: object, annotation: str) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _refuse(others: Mapping[str, object], known: Iterable[str]) -> None:
    unknown = [name for name in others if name not in NOT_TAKEN]
    if unknown:
        what = f"{unknown[0]!r} is not an argument of an Estimator"
        raise TypeError(what + hint_for_name(unknown[0], known))
    given = [name for name, value in others.items() if value]
    if given:
        raise SpecError(
            Problem(what=f"Launcher takes no {name}", where=name, fix=NOT_TAKEN[name])
            for name in given
        )
