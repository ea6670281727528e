"""The allowlist of the user's code: what data hosts may import and call, and nothing else.

A job that lists its datasets serves those and no others. One that lists none serves what its bundle
defines: before a module is imported its file must be in the bundle, and what is called must be
defined there, or be the class of a dataset.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from launcher.data.order import user_code
from launcher.data.order.dataset_arguments import without_arguments
from launcher.data.order.stream_spec import FUNCTIONS, StreamSpec
from launcher.errors import DataError
from launcher.shared import has_main_guard


def is_listed(dataset: str, datasets: Collection[str]) -> bool:
    """Return whether a dataset, whatever its arguments, is listed, or no list limits them."""
    return not datasets or without_arguments(dataset) in datasets


def not_served(dataset: str, datasets: Collection[str]) -> str:
    """Describe a dataset that is not listed, and the fix."""
    return (
        f"the dataset {dataset!r} is not served by this job; it serves {list(datasets)}: add "
        f"{without_arguments(dataset)!r} to data_service.datasets, or leave that list out to serve "
        "all datasets of the job's code"
    )


class ServedCodeCheck:
    """Checks references before this process imports what they name.

    datasets: those that the job lists; none to serve what the code defines. code: the folder of the
    bundle's code. entry_point: the path of the training script in it; modules may be beside it.
    """

    def __init__(self, datasets: Collection[str], *, code: Path, entry_point: str | None) -> None:
        self._datasets = datasets
        self._code = code.resolve()
        self._script = PurePosixPath(entry_point) if entry_point else None
        script_folder = (self._code / self._script).parent if self._script else self._code
        self._folders = (self._code, script_folder)
        self._checked: set[tuple[str, ...]] = set()

    def import_listed(self) -> None:
        """Import the modules of the listed datasets, while the ranks start.

        What fails is imported again, and reported, when a rank asks for the dataset.
        """
        for dataset in self._datasets:
            with contextlib.suppress(DataError):
                self.check_dataset(dataset)
                user_code.resolve(without_arguments(dataset), "dataset")

    def check(self, spec: StreamSpec) -> None:
        """Raise DataError unless all code of a stream is served; imports it."""
        functions = {what: str(name) for what in FUNCTIONS if (name := getattr(spec, what))}
        if (key := (spec.dataset, *functions.values())) in self._checked:
            return
        self.check_dataset(spec.dataset)
        for what, function in functions.items():
            self._check_function(function, what, spec.dataset)
        self._checked.add(key)

    def check_dataset(self, dataset: str) -> None:
        """Raise DataError unless a dataset is served."""
        if not is_listed(dataset, self._datasets):
            raise DataError(not_served(dataset, self._datasets))
        self._check(without_arguments(dataset), "dataset")

    def _check_function(self, function: str, what: str, dataset: str) -> None:
        module, _, name = function.partition(":")
        home = dataset.partition(":")[0]
        if self._datasets and module != home:
            raise DataError(
                f"the {what} {function!r} is not in the dataset's module {home}, and this job "
                f"lists what it serves: import it there, as {home}:{name}, or leave out "
                "data_service.datasets"
            )
        self._check(function, what)

    def _check(self, reference: str, what: str) -> None:
        module, _ = user_code.split(reference, what)
        self._check_guard(module, reference, what)
        if self._datasets:
            return  # its author vouches for what it names
        if self._file(module) is None:
            raise DataError(
                f"the {what} {reference!r} is not served by this job: its code has no module "
                f"{module!r}, and data hosts import no other; write a function in a module of "
                "source_dir that returns it"
            )
        if not self._is_ours(user_code.resolve(reference, what), what):
            raise DataError(
                f"the {what} {reference!r} is not served by this job: the module only imports it; "
                f"write a function there that calls it, or list it in data_service.datasets"
            )

    def _file(self, module: str) -> Path | None:
        """Return the file of a module of the bundle, None if there is none."""
        if not all(part.isidentifier() for part in module.split(".")):
            return None
        path = PurePosixPath(*module.split("."))
        files = (path.with_suffix(".py"), path / "__init__.py")
        places = (folder / file for folder in self._folders for file in files)
        return next((place for place in places if place.is_file()), None)

    def _is_ours(self, code: object, what: str) -> bool:
        home = sys.modules.get(getattr(code, "__module__", None) or "")
        file = getattr(home, "__file__", None)
        if file is not None and Path(file).resolve().is_relative_to(self._code):
            return callable(code)
        reads = hasattr(code, "__getitem__") or hasattr(code, "__iter__")
        return what == "dataset" and isinstance(code, type) and reads

    # The training script -------------------------------------------------------------------

    def _check_guard(self, module: str, reference: str, what: str) -> None:
        """Raise DataError if importing the training script would start the training."""
        if self._script is None:
            return
        file = self._code / self._script
        if self._file(module) == file and not has_main_guard(file.read_text()):
            raise DataError(
                f"the {what} {reference!r} is in the training script {self._script}, which has no "
                "main guard, so that data hosts would train when they import it: put what the "
                'script does under `if __name__ == "__main__":` at its end, or move the '
                f"{what} into a module of its own"
            )
