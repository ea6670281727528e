"""Checks of this machine, of AWS, and of a job file, each finding with a fix.

Nothing is created, neither on this machine nor on AWS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.doctor import (
        cloud_checks,
        container_checks,
        job_file_checks,
        machine_checks,
        package_checks,
        requirement_checks,
    )
    from launcher.client.doctor.aws_connection import Connection
    from launcher.client.doctor.check_result import CheckResult, CheckSection, Checkup, Level
    from launcher.client.doctor.checkup import check_aws, run_checks
    from launcher.client.doctor.container_checks import ImageLook
    from launcher.client.doctor.dataset_checks import check
    from launcher.client.doctor.dataset_names import NamedDataset, named_datasets, unnamed_datasets
    from launcher.client.doctor.dataset_process import (
        DatasetCopy,
        ReadLimits,
        at_home,
        dataset_copy,
    )
    from launcher.client.doctor.package_checks import unmet_needs
    from launcher.client.doctor.requirement_checks import missing_requirements

__getattr__ = open_door(__name__)
