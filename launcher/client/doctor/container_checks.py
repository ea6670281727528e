"""Checks of a job's image by looking into it: `launcher check --image`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from launcher.client.doctor import requirement_checks
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.doctor.package_checks import needs_torch
from launcher.client.request import SourceTree
from launcher.client.sessions import ImageContents, image_of_framework, look_into_image
from launcher.client.spec import JobSpec
from launcher.errors import PlatformError, SpecError

#: What SageMaker's training instances run.
_OF_AWS = "linux/amd64"
_OLDEST_PYTHON = (3, 10)


@dataclass(frozen=True, kw_only=True)
class ImageLook:
    """Choices for looking into an image.

    engine: the container engine; None for what is there. on_message: called with the progress.
    """

    engine: str | None
    on_message: Callable[[str], None]


def check(spec: JobSpec, look: ImageLook) -> Iterator[CheckResult]:
    """Look into a job's image, which is pulled if it is not present; the job does not run."""
    try:
        image = spec.image_uri or image_of_framework(spec)
    except SpecError:  # reported by the checks of the job file
        return
    if image is None:
        fix = "give image_uri, or framework and framework_version for AWS's image"
        yield _finding("image", "the job names no image", fix)
        return
    imports = imported_modules(spec)
    try:
        contents = look_into_image(
            image, list(imports), engine=look.engine, on_message=look.on_message
        )
    except PlatformError as error:
        what, _, fix = str(error).partition("\n  fix: ")
        yield _finding("image", what, fix or None, Level.PROBLEM)
        return
    yield _name(contents)
    yield _start(contents, spec)
    if contents.user != "0":
        what = f"programs run as user {contents.user}, to whom /opt/ml may not belong on SageMaker"
        yield _finding("image user", what, "end its Dockerfile with USER root", Level.WARNING)
    yield _python(contents, spec)
    if contents.python is None:
        return
    yield from _packages(contents, spec)
    yield from requirement_checks.check_image(spec, contents.packages.get)
    yield from _modules(contents, spec, imports)


def _name(contents: ImageContents) -> CheckResult:
    what = f"{contents.name} ({contents.digest[:19]}), {contents.platform}"
    if contents.platform == contents.here == _OF_AWS:
        return _finding("image", what)
    if contents.platform != _OF_AWS:
        fix = f"docker build --platform {_OF_AWS} ..."
        what = f"{what}: SageMaker's instances are {_OF_AWS}"
        return _finding("image", what, fix, Level.WARNING)
    what = f"{what}: this machine is {contents.here}, and emulates it slowly or not at all"
    return _finding("image", what, level=Level.WARNING)


def _start(contents: ImageContents, spec: JobSpec) -> CheckResult:
    if spec.starts_launcher:
        return _finding("image start", "the job starts python3 itself: ENTRYPOINT has no effect")
    if contents.entry_point:
        return _finding("image start", f"{contents.entry_point} starts the job")
    what = "there is neither an ENTRYPOINT nor a program `train`, and the job starts neither itself"
    return _finding("image start", what, "install a program `train` on PATH, or set ENTRYPOINT")


def _python(contents: ImageContents, spec: JobSpec) -> CheckResult:
    oldest = ".".join(map(str, _OLDEST_PYTHON))
    level = Level.PROBLEM if spec.starts_launcher else Level.WARNING
    if contents.python is None:
        what = "there is no python3 on PATH, by which Launcher starts a job"
        return _finding("image python", what, f"install Python {oldest} or newer in it", level)
    if tuple(map(int, contents.python.split(".")[:2])) >= _OLDEST_PYTHON:
        return _finding("image python", contents.python)
    fix = f"use an image with Python {oldest} or newer"
    return _finding("image python", contents.python, fix, level)


def _packages(contents: ImageContents, spec: JobSpec) -> Iterator[CheckResult]:
    needed = {"torch": needs_torch(spec), "numpy": spec.data_service is not None}
    for package, is_needed in needed.items():
        version = contents.packages.get(package)
        if version is not None:
            yield _finding(f"image {package}", version)
            continue
        level = Level.PROBLEM if is_needed else Level.WARNING
        fix = f"use an image that has it, or add {package} to requirements.txt"
        yield _finding(f"image {package}", "not installed", fix, level)


def _modules(
    contents: ImageContents, spec: JobSpec, imports: dict[str, str]
) -> Iterator[CheckResult]:
    """Yield a problem for each module that a script imports, and that nothing brings."""
    from importlib.metadata import packages_distributions, version

    packages = packages_distributions()
    wanted = set(requirement_checks.required_names(spec))
    for module, place in imports.items():
        if module in contents.modules or canonicalize_name(module) in wanted:
            continue
        owners = packages.get(module, [])
        if wanted & set(map(canonicalize_name, owners)):
            continue
        here = f"; this machine has {owners[0]} {version(owners[0])}" if owners else ""
        line = f"{owners[0]}=={version(owners[0])}" if owners else module
        yield _finding(
            "image packages",
            f"{place} imports {module}, which the image lacks{here}",
            f"add {line} to requirements.txt, or use an image that has it",
        )


def _finding(
    subject: str, what: str, fix: str | None = None, level: Level | None = None
) -> CheckResult:
    """Return a finding; without a level, one with a fix is a problem."""
    level = level or (Level.PROBLEM if fix else Level.OK)
    return CheckResult(part=CheckSection.JOB, subject=subject, level=level, what=what, fix=fix)


#: Packages that come with the job.
_OURS = frozenset({"launcher", "hetero_launcher"})


def imported_modules(spec: JobSpec) -> dict[str, str]:
    """Return the first file and line that needs each package of others, by the package's name.

    Imports in functions and in `try` and `if` are left out: a script may do without them.
    """
    try:
        files = SourceTree(spec)
        own = {file.path for file in files.files if file.path.endswith(".py")}
    except SpecError:  # reported by the checks of the job file
        return {}
    found: dict[str, str] = {}
    waiting, seen = _first_files(spec, own), set[str]()
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        for module, line in _imports(files.read_text(path)):
            if inside := _own_files(module, own):
                waiting += inside
            elif (top := module.partition(".")[0]) not in sys.stdlib_module_names | _OURS:
                found.setdefault(top, f"{path}, line {line},")
    return found


def _first_files(spec: JobSpec, own: set[str]) -> list[str]:
    modules = [each.partition(":")[0] for each in _references(spec)]
    files = [file for module in modules for file in _own_files(module, own)]
    return [each for each in [spec.script if spec.entry_point else "", *files] if each in own]


def _references(spec: JobSpec) -> list[str]:
    datasets = spec.data_service.datasets if spec.data_service else ()
    return [*datasets, *([spec.task] if spec.task else [])]


def _own_files(module: str, own: set[str]) -> list[str]:
    """Return the files of the source that importing a module runs; none for others' packages."""
    parts = module.split(".")
    names = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    places = [f"{root}{name}{end}" for root in ("", "src/") for name in names for end in _ENDS]
    return [place for place in places if place in own]


_ENDS = (".py", "/__init__.py")


def _imports(source: str) -> Iterator[tuple[str, int]]:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):  # the checks of the job file say so
        return
    for node in body:
        match node:
            case ast.Import(names=names):
                yield from ((each.name, node.lineno) for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((f"{module}.{each.name}", node.lineno) for each in names)
