"""Job specifications, independent of where a job runs: values, validation rules and YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.spec.assumed_job import assume_job, is_script
    from launcher.client.spec.bounded_yaml import BoundedYaml11Loader, LimitExceeded, read_bounded
    from launcher.client.spec.data_service import DataService
    from launcher.client.spec.distributions.base import Distribution
    from launcher.client.spec.distributions.data_parallel import DataParallel
    from launcher.client.spec.distributions.jax_distribution import Jax
    from launcher.client.spec.distributions.model_parallel import ModelParallel
    from launcher.client.spec.distributions.mpi_distribution import Mpi
    from launcher.client.spec.distributions.multi_worker_mirrored import MultiWorkerMirrored
    from launcher.client.spec.distributions.parameter_server import ParameterServer
    from launcher.client.spec.distributions.registry import distribution_from
    from launcher.client.spec.distributions.toolkit_distribution import Toolkit
    from launcher.client.spec.distributions.torchrun_distribution import TorchrunDistribution
    from launcher.client.spec.document_builder import read_document, read_plain, read_value
    from launcher.client.spec.field_checks import range_problems
    from launcher.client.spec.field_hints import NOT_TAKEN, hint_for_name
    from launcher.client.spec.groups import CapacityRetry, InstanceGroup
    from launcher.client.spec.html_tables import escaped, html_cells, html_pairs, html_table
    from launcher.client.spec.job_fields import field_doc
    from launcher.client.spec.job_spec import JobSpec
    from launcher.client.spec.json_schema import field_notes, job_schema
    from launcher.client.spec.metric_definition import MetricDefinition
    from launcher.client.spec.module_names import defined_names
    from launcher.client.spec.requirements_file import RequirementsFile, read_requirements
    from launcher.client.spec.resolve_paths import anchored
    from launcher.client.spec.roles import infer_roles, job_roles, leading_group, scope_of
    from launcher.client.spec.rules import check
    from launcher.client.spec.rules.channel_rules import is_channel_name
    from launcher.client.spec.rules.check_spec import examine, refuse_wrong_types
    from launcher.client.spec.rules.limit_rules import METRICS_LIMIT, regex_problems
    from launcher.client.spec.rules.requirements_rules import requirements_of
    from launcher.client.spec.sdk_v2_distribution import as_distribution, limited_to
    from launcher.client.spec.spec_names import names
    from launcher.client.spec.spec_page import spec_html
    from launcher.client.spec.tracking import Tracking, is_folder
    from launcher.client.spec.training_inputs import FileSystemInput, ShuffleConfig, TrainingInput
    from launcher.shared import Ready

__getattr__ = open_door(__name__)
