"""Job specifications, independent of where a job runs: values, validation rules and YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.spec.assumed_job import assume_job, is_script
    from launcher.client.spec.bounded_yaml import BoundedYaml11Loader, LimitExceeded, read_bounded
    from launcher.client.spec.distributions.base import Distribution, TorchrunDistribution
    from launcher.client.spec.distributions.cluster_distributions import (
        Jax,
        Mpi,
        MultiWorkerMirrored,
        ParameterServer,
    )
    from launcher.client.spec.distributions.data_parallel import DataParallel
    from launcher.client.spec.distributions.model_parallel import ModelParallel
    from launcher.client.spec.distributions.registry import (
        as_distribution,
        distribution_from,
        limited_to,
    )
    from launcher.client.spec.distributions.toolkit_distribution import Toolkit
    from launcher.client.spec.field_checks import range_problems
    from launcher.client.spec.field_hints import NOT_TAKEN, hint_for_name, seconds_of
    from launcher.client.spec.host_memory import BYTES_PER_WORKER, HostMemory, memory_shortages
    from launcher.client.spec.job_fields import field_doc
    from launcher.client.spec.job_parts import (
        DataService,
        FileSystemInput,
        InstanceGroup,
        MetricDefinition,
        Retry,
        ShuffleConfig,
        Tracking,
        TrainingInput,
        is_folder,
        names,
    )
    from launcher.client.spec.job_spec import JobSpec
    from launcher.client.spec.job_yaml import read_document, read_plain, read_value
    from launcher.client.spec.json_schema import field_notes, job_schema, schema_text
    from launcher.client.spec.one_rank import as_one_rank
    from launcher.client.spec.requirements_file import RequirementsFile, read_requirements
    from launcher.client.spec.resolve_paths import anchored
    from launcher.client.spec.roles import infer_roles, job_roles, leading_group, scope_of
    from launcher.client.spec.rules import check
    from launcher.client.spec.rules.channel_rules import is_channel_name
    from launcher.client.spec.rules.check_spec import examine, refuse_wrong_types
    from launcher.client.spec.rules.group_rules import requirements_of
    from launcher.client.spec.rules.source_rules import defined_names
    from launcher.client.spec.rules.value_rules import METRICS_LIMIT, regex_problems
    from launcher.client.spec.spec_page import spec_html
    from launcher.shared import Ready

__getattr__ = open_door(__name__)
