"""Rules between the fields of a request, which the service model does not contain.

Each rule takes a request whose values have the right types, though any may be missing, and yields
violations. AWS's own messages are quoted where they are public; each module names its sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.request.validation.rules import channels, machines, serverless, waiting
from launcher.request.validation.violations import Violation

Rule = Callable[[Mapping[str, Any]], Iterator[Violation]]

RULES: tuple[Rule, ...] = (
    serverless.needs_its_parts,
    serverless.excludes_what_it_chooses,
    machines.are_given_in_one_way,
    machines.have_hosts,
    machines.have_groups_of_different_names,
    machines.are_preferred_in_one_way,
    machines.have_no_fields_of_answers,
    machines.encrypt_no_local_storage,
    machines.keep_warm_pools_to_one_type,
    machines.have_an_image,
    machines.have_an_image_that_knows_groups,
    channels.have_one_source,
    channels.have_different_names,
    channels.go_to_groups_all_or_none,
    channels.go_to_groups_that_exist,
    channels.reach_file_systems_in_a_vpc,
    waiting.ends_within_a_month,
    waiting.is_for_spot_instances,
    waiting.is_given_for_spot_instances,
    waiting.lasts_as_long_as_the_job,
)
