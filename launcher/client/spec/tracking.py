"""Trackers of a job's metrics: where they are written while the job is followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """Places for a job's metrics; whoever follows it on the machine that sent it writes there.

    tensorboard: A folder for TensorBoard's event files; each host of each job has its own in it.
    mlflow: MLflow's tracking URI, such as http://localhost:5000 or sqlite:///mlflow.db; or a
        folder.
    mlflow_experiment: The experiment of the runs, "launcher" by default.
    callback: "module:function" or "file.py:function": called with the job's name and each value, a
        MetricRecord.
    """

    tensorboard: str | None = None
    mlflow: str | None = None
    mlflow_experiment: str | None = None
    callback: str | None = None

    def anchored(self, absolute: Callable[[str], str]) -> Tracking:
        """Return a copy whose paths are absolute. absolute: makes one so."""
        folder, mlflow, callback = self.tensorboard, self.mlflow, self.callback
        return dataclasses.replace(
            self,
            tensorboard=absolute(folder) if folder else folder,
            mlflow=absolute(mlflow) if mlflow and is_folder(mlflow) else mlflow,
            callback=absolute(callback) if callback and ".py:" in callback else callback,
        )


def is_folder(uri: str) -> bool:
    """Return whether a tracking URI of MLflow is the path of a folder."""
    return ":" not in uri and uri != "databricks"
