"""Rooms are entered by their doors: what a package's `__init__` lists, and no module behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from sources import ROOT, Source, sources

#: Packages that list their names for users in their own way, and a module that is a door itself.
OTHER_DOORS = {
    "launcher",
    "launcher.parallel.smp",
    "launcher.data.keras",
    "launcher.data.ray",
}
#: Modules that may be imported from anywhere: they run where no door may be opened yet.
BEFORE_DOORS = {"launcher.shared.doors", "launcher.shared.users_modules"}
WAITS = "shortens waits that are constants"
LIMITS = "lowers limits that no test could reach"
PATCHES = "replaces one step of the module, to make it fail or to see it called"
#: Tests that import modules behind doors, with their reasons.
BEHIND_DOORS = {
    "aws/client_forks.py": WAITS,
    "aws/fault_stage.py": WAITS,
    "aws/test_aws_following.py": WAITS,
    "aws/test_aws_identity.py": PATCHES,
    "aws/test_aws_jobs.py": WAITS,
    "aws/test_aws_logs.py": WAITS,
    "aws/test_aws_storage.py": WAITS,
    "aws/test_call_limits.py": LIMITS,
    "aws/test_checkup_answers.py": WAITS,
    "data/test_as_in_torch.py": PATCHES,
    "data/test_batches_of_libraries.py": PATCHES,
    "data/test_coalescing.py": LIMITS,
    "data/test_codecs.py": PATCHES,
    "data/test_collation.py": "gives each module a codec registry of its own",
    "data/test_dataset_arguments.py": PATCHES,
    "data/test_dispatcher.py": WAITS,
    "data/test_entropy.py": PATCHES,
    "data/test_mapping.py": PATCHES,
    "data/test_pool_tasks.py": PATCHES,
    "data/test_progress_reporter.py": WAITS,
    "data/test_rank_watch.py": WAITS,
    "data/test_saved_states.py": LIMITS,
    "data/test_seeding.py": PATCHES,
    "data/test_shard_reader.py": PATCHES,
    "data/test_single_thread.py": PATCHES,
    "data/test_striped_sender.py": LIMITS,
    "data/test_takings.py": LIMITS,
    "data/test_torch_samplers.py": LIMITS,
    "doctor/conftest.py": WAITS,
    "doctor/test_checkup_of_places.py": PATCHES,
    "endpoint/test_endpoint_connections.py": LIMITS,
    "jobs/test_following_without_logs.py": WAITS,
    "local/test_bombs.py": LIMITS,
    "local/test_local_status.py": PATCHES,
    "parallel/test_smp_configuration.py": "asks what smp has no name for",
    "promises/cables.py": "enters the namespaces of a host to cut its cable",
    "runtime/test_host_silence.py": WAITS,
    "runtime/test_memory_evidence.py": PATCHES,
    "sessions/test_conformance_of_sessions.py": PATCHES,
    "sessions/test_default_values.py": "calls a verb beside the options that it reads",
}


def is_door(path: Path) -> bool:
    return path.name == "__init__.py" and "open_door(__name__)" in path.read_text()


def listed(path: Path) -> set[str]:
    """The names in the TYPE_CHECKING block of a door."""
    imports = Source.read(path.read_text()).imports_for_types
    return {each.asname or each.name for line in imports for each in line.names}


PRODUCT = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "launcher").rglob("*.py")
}
DOORS = {name: listed(path) for name, path in PRODUCT.items() if is_door(path)}


def room_of(module: str) -> str:
    """The innermost room that a module is in."""
    while module and module not in DOORS and module not in OTHER_DOORS:
        module = module.rpartition(".")[0]
    return module


def entered_behind(importer: str, source: Source) -> Iterator[str]:
    """What a file imports from behind the doors of rooms that it is not in."""
    for node in (*source.imports, *source.imports_for_types):
        if isinstance(node, ast.Import):
            found = {each.name: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {each.name: f"{node.module}.{each.name}" for each in node.names}
            found = {
                full: full if full in PRODUCT else node.module
                for name, full in whole.items()
                if name not in DOORS.get(node.module, ())
            }
        else:
            continue
        for what, module in found.items():
            room = room_of(module)
            is_inside = importer == room or importer.startswith(f"{room}.")
            is_door = room in ("", "launcher", module) or module in BEFORE_DOORS
            if not is_door and not is_inside:
                yield what


def test_rooms_import_each_other_by_their_doors():
    assert len(DOORS) > 25
    product = sources("launcher").items()
    found = {name: list(entered_behind(name, source)) for name, (_, source) in product}
    assert {name: each for name, each in found.items() if each} == {}


def test_tests_import_rooms_by_their_doors():
    found = {
        str(path.relative_to(ROOT / "tests"))
        for name, (path, source) in sources("tests").items()
        if list(entered_behind(name, source))
    }
    assert found == set(BEHIND_DOORS)
    assert len(found) <= 40


@pytest.mark.parametrize("room", sorted(DOORS))
def test_a_door_opens_for_each_of_its_names_and_for_no_other(room):
    door = import_module(room)
    for name in DOORS[room]:
        try:
            found = getattr(door, name)
        except ModuleNotFoundError as error:
            if error.name != "tensorflow":  # which few have
                raise
            continue
        # a module of the room by that name would be found in place of another thing
        assert f"{room}.{name}" not in PRODUCT or isinstance(found, ModuleType), name
    with pytest.raises(AttributeError, match="no_such_name"):
        door.no_such_name  # noqa: B018
