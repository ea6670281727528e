"""The command line on jobs of its own: LAUNCHER_HOME is a temporary folder."""

import shutil

import pytest
from terminal import terminal

from launcher.client.jobs import Job
from launcher.client.sessions import LocalSession

__all__ = ["terminal"]


@pytest.fixture(scope="session")
def home_with_jobs(tmp_path_factory):
    """Three jobs that have ended; "pair-2" has two groups. All were made by the real session."""
    home = tmp_path_factory.mktemp("made") / "home"
    session = LocalSession(home, "process")
    one = {"InstanceType": "ml.m5.large", "InstanceCount": 1}
    pair = [
        {"InstanceGroupName": name, "InstanceType": "ml.m5.large", "InstanceCount": count}
        for name, count in (("main_group", 1), ("mending", 2))
    ]
    for name, resources in (
        ("pair-1", one),
        ("other", one),
        ("pair-2", {"InstanceGroups": pair}),
    ):
        session.create_training_job(
            TrainingJobName=name,
            RoleArn="arn:aws:iam::000000000000:role/local",
            AlgorithmSpecification={
                "TrainingImage": "local",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["true"],
            },
            OutputDataConfig={"S3OutputPath": f"file://{home}/output"},
            ResourceConfig={"VolumeSizeInGB": 30, **resources},
            StoppingCondition={"MaxRuntimeInSeconds": 60},
        )
        Job(name, session).wait()
    return home


@pytest.fixture
def jobs(terminal, home_with_jobs):
    shutil.copytree(home_with_jobs, terminal.home, symlinks=True)
