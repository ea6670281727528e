"""The fixture of jobs that are made of real hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hosts import Hosts

from launcher.shared import (
    DEFAULT_ENGINE,
    DataPart,
    JobDocument,
    Launch,
    ParallelPart,
    Role,
    TrainerPart,
)

MakeHosts = Callable[..., Hosts]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeHosts]:
    """Makes the hosts of job documents and kills what is left of them afterwards."""
    made: list[Hosts] = []

    def make(
        document: JobDocument, groups: dict[str, int], files: dict[str, str], **options: object
    ) -> Hosts:
        folder = tmp_path / f"cluster-{len(made)}"
        made.append(Hosts(folder, document, groups, files, **options))
        return made[-1]

    yield make
    for hosts in made:
        hosts.kill()


@pytest.fixture
def make_hosts(make_cluster: MakeHosts) -> MakeHosts:
    """Makes clusters of data= hosts and train= hosts."""

    def make(
        files: dict[str, str],
        *,
        data: int = 0,
        train: int = 1,
        launch: Launch = Launch.PYTHON,
        processes_per_host: int = 1,
        workers_per_host: int | None = 1,
        start_timeout: float = 60.0,
        prefetch_bytes: int = 1 << 20,
        metrics_port: int | None = None,
        checksums: bool = False,
        local_workers: int = 0,
        engine: str = DEFAULT_ENGINE,
        entry_point: str = "train.py",
        datasets: tuple[str, ...] = ("pipeline:train_set",),
        hang_timeout: int = 0,
        mpi_options: tuple[str, ...] = (),
        task: str | None = None,
        parallel: ParallelPart | None = None,
        **options: object,
    ) -> Hosts:
        groups = {"data_group": data, "train_group": train} if data else {"train_group": train}
        roles = {"data_group": Role.DATA, "train_group": Role.TRAIN}
        document = JobDocument(
            roles={group: roles[group] for group in groups},
            trainer=TrainerPart(
                entry_point=entry_point,
                launch=launch,
                processes_per_host=processes_per_host,
                hang_timeout=hang_timeout,
                mpi_options=mpi_options,
                task=task,
                parallel=parallel or ParallelPart(),
            ),
            data=DataPart(
                datasets=datasets,
                workers_per_host=workers_per_host,
                prefetch_bytes=prefetch_bytes,
                metrics_port=metrics_port,
                checksums=checksums,
                local_workers=local_workers,
                engine=engine,
            ),
            start_timeout=start_timeout,
        )
        return make_cluster(document, groups, files, **options)

    return make
