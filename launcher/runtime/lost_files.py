"""Files that go with a host of SageMaker's, because they are in no folder that is kept."""

from __future__ import annotations

import os

from launcher.runtime.environment import Environment
from launcher.runtime.event_log import emit
from launcher.shared import EVENTS_VARIABLE
from launcher.shared.unkept_files import kept_elsewhere, listed, new_files, size_text

#: Folders beside output/data: of Debugger, its profiler, TensorBoard and SageMaker's own metrics.
_STORED_BY_SAGEMAKER = ("metrics", "profiler", "tensorboard", "tensors")


def report_lost_files(environment: Environment, since: float) -> None:
    """Report the new files below /opt/ml if the host that leads the training has left no model.

    since: when its programs began. A platform that reads events itself names those of all hosts.
    """
    paths = environment.paths
    has_model = paths.model.is_dir() and any(paths.model.iterdir())
    if has_model or EVENTS_VARIABLE in os.environ or not environment.cluster.is_leader:
        return
    kept = kept_elsewhere(paths, environment.checkpoint_folder)
    kept |= {paths.output_data.with_name(each) for each in _STORED_BY_SAGEMAKER}
    found = sorted(new_files(paths.root, kept, since), key=lambda file: (-file[1], file[0]))
    if found:
        emit("files_lost", files=listed([f"{path} ({size_text(size)})" for path, size in found]))
