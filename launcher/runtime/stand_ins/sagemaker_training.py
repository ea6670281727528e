"""A stand-in for AWS's training toolkit, on hosts where that is not installed.

Start scripts of AWS's examples read `sagemaker_training.environment.Environment`, which AWS's
images have. Here it answers from the variables that the toolkit sets for a script.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any


class ToolkitEnvironment(Mapping[str, Any]):
    """The toolkit's Environment: what it knows of this host and the job, by its own names.

    Raises RuntimeError outside of a training job.
    """

    def __init__(self) -> None:
        if "SM_TRAINING_ENV" not in os.environ:
            raise RuntimeError("SM_TRAINING_ENV is not set: this is not the inside of a job")
        self._facts: dict[str, Any] = json.loads(os.environ["SM_TRAINING_ENV"])

    def __getattr__(self, name: str) -> Any:
        """Return a property by its name."""
        try:
            return vars(self)["_facts"][name]
        except KeyError:
            raise AttributeError(f"the toolkit's Environment has no property {name!r}") from None

    def __getitem__(self, name: str) -> Any:
        """Return a property by its name."""
        return self._facts[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all properties."""
        return iter(self._facts)

    def __len__(self) -> int:
        """Return the number of properties."""
        return len(self._facts)

    def to_cmd_args(self) -> list[str]:
        """Return the hyperparameters as arguments of a script."""
        arguments: list[str] = json.loads(os.environ["SM_USER_ARGS"])
        return arguments

    def to_env_vars(self) -> dict[str, str]:
        """Return the toolkit's variables."""
        return {name: text for name, text in os.environ.items() if name.startswith("SM_")}


environment = ModuleType("sagemaker_training.environment")
vars(environment)["Environment"] = ToolkitEnvironment
sys.modules[environment.__name__] = environment
