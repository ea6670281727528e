"""The probe's job as a request, and the objects that it needs."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from launcher.client.request import JobLocation, Submission, build_request
from launcher.client.spec import JobSpec, TrainingInput
from launcher.shared import CODE_CHANNEL

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

_FOLDER = Path(__file__).parent
_PROGRAM = "probe.pyz"
_START = "import sys\n\nfrom inside.host import run\n\nsys.exit(run())\n"
#: The groups that each channel is routed to.
_ROUTES = {
    "for_main": ("main_group",),
    "for_helper": ("helper_group",),
    "for_both": ("main_group", "helper_group"),
}
_SHARDS = ("a.txt", "b.txt", "c.txt", "d.txt")


def probe_spec(changes: Mapping[str, object]) -> JobSpec:
    """Return the packaged job file's spec, with some hyperparameters changed."""
    spec = JobSpec.from_yaml(_FOLDER / "job.yaml")
    return spec.replace(hyperparameters={**spec.hyperparameters, **changes})


def build_probe(spec: JobSpec, placement: JobLocation) -> Submission:
    """Build the request, and every object that it refers to.

    Launcher's own entry point is not used, so that the answers are the platform's behaviour alone.
    """
    place = placement.code_uri.removesuffix(f"{CODE_CHANNEL}/") + "channels"
    inputs = {
        **{
            name: TrainingInput(f"{place}/{name}/", instance_groups=groups)
            for name, groups in _ROUTES.items()
        },
        "sharded": TrainingInput(
            f"{place}/sharded/",
            instance_groups=_ROUTES["for_both"],
            distribution="ShardedByS3Key",
        ),
    }
    request = cast("TrainingJobRequest", build_request(spec.replace(inputs=inputs), placement))
    request["AlgorithmSpecification"]["ContainerEntrypoint"] = [
        "python3",
        f"/opt/ml/input/data/{CODE_CHANNEL}/{_PROGRAM}",
    ]
    objects = {
        placement.code_uri + _PROGRAM: program(),
        **{f"{place}/{name}/{name}.txt": name.encode() for name in _ROUTES},
        **{f"{place}/sharded/{shard}": shard.encode() for shard in _SHARDS},
    }
    return Submission(request=request, objects=objects, warnings=())


def program() -> bytes:
    """Return the program of every host: one zip, identical each time it is made."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py"), _START)
        for path in sorted((_FOLDER / "inside").glob("*.py")):
            archive.writestr(zipfile.ZipInfo(f"inside/{path.name}"), path.read_bytes())
    return packed.getvalue()
