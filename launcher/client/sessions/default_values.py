"""Default values of jobs on SageMaker from files: Launcher's own, and SDK v2's.

Launcher's is config.yaml in $LAUNCHER_HOME, or ~/.launcher; its keys are fields of a job, and two
options of jobs on this machine. SDK v2's are the user's and the administrator's; of the files that
have a value, the first one here wins.

Source of SDK v2's places and paths: config.py and config_schema.py of sagemaker 2.257.0.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.client.home import home_folder
from launcher.errors import Problem, SpecError
from launcher.shared import choice_fix, shown

USER_VARIABLE = "SAGEMAKER_USER_CONFIG_OVERRIDE"
ADMIN_VARIABLE = "SAGEMAKER_ADMIN_CONFIG_OVERRIDE"
FILE_NAME = "config.yaml"
_SCHEMA_VERSION = "1.0"

#: The fields with a default, their type, and their path in a file of SDK v2; None: not there.
_JOB, _SESSION = "SageMaker.TrainingJob.", "SageMaker.PythonSDK.Modules.Session."
DEFAULT_FIELDS: Mapping[str, tuple[type, str | None]] = {
    "role": (str, _JOB + "RoleArn"),
    "image_uri": (str, None),
    "output_path": (str, None),
    "code_location": (str, None),
    "output_kms_key": (str, _JOB + "OutputDataConfig.KmsKeyId"),
    "volume_kms_key": (str, _JOB + "ResourceConfig.VolumeKmsKeyId"),
    "subnets": (list, _JOB + "VpcConfig.Subnets"),
    "security_group_ids": (list, _JOB + "VpcConfig.SecurityGroupIds"),
    "encrypt_inter_container_traffic": (bool, _JOB + "EnableInterContainerTrafficEncryption"),
    "enable_network_isolation": (bool, _JOB + "EnableNetworkIsolation"),
    "disable_profiler": (bool, _JOB + "ProfilerConfig.DisableProfiler"),
    "environment": (dict, _JOB + "Environment"),
    "tags": (dict, _JOB + "Tags"),
    "default_bucket": (str, _SESSION + "DefaultS3Bucket"),
    "default_bucket_prefix": (str, _SESSION + "DefaultS3ObjectKeyPrefix"),
    "isolation": (str, None),
    "engine": (str, None),
}
_NOUNS = {str: "text", list: "a list of texts", bool: "true or false", dict: "a mapping of texts"}


@dataclass(frozen=True, kw_only=True)
class DefaultValue:
    """The default of a field. file: where it is written; key: its path in that file."""

    value: Any
    file: Path
    key: str


@dataclass(frozen=True, kw_only=True)
class DefaultsFile:
    """A file that may hold defaults.

    is_named: the user has named it, so it must exist. is_sdk_v2: it has SDK v2's schema.
    """

    path: Path
    is_named: bool
    is_sdk_v2: bool


def defaults_files() -> tuple[DefaultsFile, ...]:
    """Return the files in the order in which they win; they need not exist."""
    home = home_folder()
    own = DefaultsFile(path=home / FILE_NAME, is_named=False, is_sdk_v2=False)
    return own, _sdk_v2_file(USER_VARIABLE, _user_folder()), _sdk_v2_file(ADMIN_VARIABLE, _site())


def read_defaults() -> dict[str, DefaultValue]:
    """Return the default of each field that has one; raise SpecError with every bad value."""
    problems: list[Problem] = []
    found: dict[str, DefaultValue] = {}
    for file in defaults_files():
        for field, default in _read(file, problems):
            found.setdefault(field, default)
    if problems:
        raise SpecError(problems)
    return {field: found[field] for field in DEFAULT_FIELDS if field in found}


def local_default(name: str) -> str | None:
    """Return an option of jobs on this machine, `isolation` or `engine`; None without a default.

    Only Launcher's own file is read. Raises SpecError with every bad value in it.
    """
    problems: list[Problem] = []
    found = dict(_read(defaults_files()[0], problems))
    if problems:
        raise SpecError(problems)
    return found[name].value if name in found else None


def _sdk_v2_file(variable: str, folder: Path) -> DefaultsFile:
    named = os.environ.get(variable)
    path = Path(named).expanduser() if named else folder / "sagemaker"
    if named and named.startswith("s3://"):
        path = Path(named)  # refused when it is read
    elif not named or os.path.isdir(path):  # noqa: PTH112  Path.is_dir may raise
        path = path / FILE_NAME
    return DefaultsFile(path=path, is_named=bool(named), is_sdk_v2=True)


def _user_folder() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Application Support").expanduser()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()


def _site() -> Path:
    if sys.platform == "darwin":
        return Path("/Library/Application Support")
    return Path((os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)[0])


def _read(file: DefaultsFile, problems: list[Problem]) -> Iterator[tuple[str, DefaultValue]]:
    """Yield the defaults of a file, and record what is wrong in it."""
    content = _content(file, problems)
    if content is None:
        return
    known = _sdk_v2_values(content) if file.is_sdk_v2 else dict(_own_values(content))
    for key, (field, value) in known.items():
        problem = _problem_of(field, value)
        if problem is None:
            yield field, DefaultValue(value=value, file=file.path, key=key)
        else:
            what, fix = problem
            problems.append(Problem(what=what, where=f"{file.path}: {key}", fix=fix))


def _content(file: DefaultsFile, problems: list[Problem]) -> Mapping[str, Any] | None:
    """Return the mapping in a file; None without one, with a problem where one must be."""

    def reject(what: str, fix: str) -> None:
        problems.append(Problem(what=what, where=str(file.path), fix=fix))

    try:
        status = file.path.stat()
        if not stat.S_ISREG(status.st_mode):
            reject("the file of defaults is not a file", "write a file there, or remove it")
            return None
        import yaml  # only where there is a file: every local session looks for one

        content = _loaded(file.path, status.st_mtime_ns, status.st_size)
    except (FileNotFoundError, NotADirectoryError):
        if file.is_named:
            reject("there is no such file of defaults", "name a file on this machine, or unset it")
        return None
    except OSError as error:
        what = f"the file of defaults cannot be read: {error.strerror}"
        reject(what, "let this user read it and its folder, or remove it")
        return None
    except (UnicodeError, yaml.YAMLError) as error:
        reject(f"the file of defaults cannot be read: {error}", "correct it, or remove it")
        return None
    if content is None:
        return None
    if not isinstance(content, Mapping):
        reject("the file of defaults is not a mapping", "write for example: role: MyRole")
        return None
    version = content.get("SchemaVersion")
    if file.is_sdk_v2 and version != _SCHEMA_VERSION:
        reject(f"SchemaVersion is {shown(version)}", f"write SchemaVersion: '{_SCHEMA_VERSION}'")
        return None
    return content


@functools.lru_cache(maxsize=8)
def _loaded(path: Path, _changed: int, _size: int) -> Any:
    """Return the content of a file, read once in each state: a session and its jobs need it."""
    from launcher.client.spec import BoundedYaml11Loader, read_bounded

    return BoundedYaml11Loader(read_bounded(path)).get_single_data()


def _own_values(content: Mapping[str, object]) -> Iterator[tuple[str, tuple[str, Any]]]:
    for key, value in content.items():
        yield str(key), (str(key), value)


def _sdk_v2_values(content: Mapping[str, object]) -> dict[str, tuple[str, Any]]:
    """Return the values that SDK v2 would take for a training job, by their paths."""
    found = {}
    for field, (_, key) in DEFAULT_FIELDS.items():
        value: Any = content
        for name in key.split(".") if key else ():
            value = value.get(name) if isinstance(value, Mapping) else None
        if key and value is not None:
            found[key] = (field, _as_mapping(value) if field == "tags" else value)
    return found


def _as_mapping(tags: Any) -> Any:
    """Return AWS's list of {"Key": ..., "Value": ...} as a mapping; others are refused later."""
    try:
        return {tag["Key"]: tag["Value"] for tag in tags}
    except (TypeError, KeyError):
        return tags


def _problem_of(field: str, value: object) -> tuple[str, str] | None:
    """Return what is wrong with a default, and how to fix it; None if nothing is."""
    if field not in DEFAULT_FIELDS:
        return f'"{field}" has no default', choice_fix(field, list(DEFAULT_FIELDS))
    declared, _ = DEFAULT_FIELDS[field]
    if _CHECKS[declared](value):
        return None
    return f"{shown(value)} is not {_NOUNS[declared]}", f"write {_NOUNS[declared]}"


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


_CHECKS: Mapping[type, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    list: lambda value: isinstance(value, list) and _are_texts(value),
    dict: lambda value: isinstance(value, Mapping) and _are_texts([*value, *value.values()]),
}
