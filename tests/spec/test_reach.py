"""Whether the data hosts get any data."""

import pytest

from launcher.client.spec import DataService, InstanceGroup, JobSpec, TrainingInput, check


class Files:
    """What travels with the job: a script and a dataset module."""

    paths = ("train.py", "pipeline.py")

    def exists(self, path: str) -> bool:
        return path in self.paths

    def read_text(self, path: str) -> str:
        return "def train_set(): ...\n"


@pytest.mark.parametrize(
    ("routes", "warned"),
    [
        ({"digits": ("train_group",)}, True),
        ({"digits": ("train_group",), "raw": ("data_group",)}, False),
        ({"digits": ()}, False),
        ({}, False),
    ],
    ids=["elsewhere only", "one of two", "everywhere", "no channels"],
)
def test_a_data_group_that_no_channel_reaches_is_warned_of(routes, warned):
    spec = JobSpec(
        entry_point="train.py",
        source_dir=".",
        instance_groups=(
            InstanceGroup("data_group", "ml.c5.xlarge"),
            InstanceGroup("train_group", "ml.g4dn.xlarge"),
        ),
        data_service=DataService(datasets=("pipeline:train_set",)),
        inputs={
            name: TrainingInput("s3://my-bucket/data", instance_groups=groups)
            for name, groups in routes.items()
        },
    )
    warnings = [w for w in check(spec, Files()) if "no channel goes to" in w]
    assert bool(warnings) == warned
    if warned:
        assert '"data_group"' in warnings[0]
