"""Rules between the fields of a request, which the service model does not contain.

Each rule takes a request whose values have the right types, though any may be missing, and yields
violations. AWS's own messages are quoted where they are public; each module names its sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from launcher.client.request.validation.rules import (
    channel_violations,
    machine_violations,
    serverless_violations,
    waiting_violations,
)
from launcher.client.request.validation.violations import Violation
from launcher.shared import TrainingJobRequest

Rule = Callable[[TrainingJobRequest], Iterator[Violation]]

RULES: tuple[Rule, ...] = (
    serverless_violations.needs_its_parts,
    serverless_violations.excludes_what_it_chooses,
    machine_violations.are_given_in_one_way,
    machine_violations.have_hosts,
    machine_violations.have_groups_of_different_names,
    machine_violations.are_preferred_in_one_way,
    machine_violations.have_no_fields_of_answers,
    machine_violations.encrypt_no_local_storage,
    machine_violations.keep_warm_pools_to_one_type,
    machine_violations.have_an_image,
    machine_violations.have_an_image_that_knows_groups,
    channel_violations.have_one_source,
    channel_violations.have_different_names,
    channel_violations.go_to_groups_all_or_none,
    channel_violations.go_to_groups_that_exist,
    channel_violations.reach_file_systems_in_a_vpc,
    waiting_violations.ends_within_a_month,
    waiting_violations.is_for_spot_instances,
    waiting_violations.is_given_for_spot_instances,
    waiting_violations.lasts_as_long_as_the_job,
)
