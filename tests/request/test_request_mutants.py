"""Every rule between fields has requests that break it, and legal ones beside them."""

from __future__ import annotations

import pytest
from request_mutants import ACCEPTED, MUTANTS

from launcher.client.request import RULES, aws_answer, find_violations
from launcher.errors import dotted


@pytest.mark.parametrize("case", MUTANTS, ids=lambda case: case.name)
def test_a_broken_rule_is_reported_at_its_field(case):
    case.skip_if_newer()
    (found,) = find_violations(case.request)
    assert dotted(found.path) == case.path
    assert found.is_warning is case.is_warning
    assert bool(aws_answer([found])) is not case.is_warning


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_what_keeps_the_rules_is_accepted(case):
    case.skip_if_newer()
    assert find_violations(case.request) == ()


@pytest.mark.parametrize("cases", [MUTANTS, ACCEPTED], ids=["broken", "kept"])
def test_every_rule_has_both_sides(cases):
    assert {rule.__name__ for rule in RULES} == {case.rule for case in cases}


@pytest.mark.parametrize("case", MUTANTS, ids=lambda case: case.name)
def test_it_is_the_named_rule_that_tells(case):
    (rule,) = (rule for rule in RULES if rule.__name__ == case.rule)
    assert list(rule(case.request))


QUOTED = {
    "groups and a type": "InstanceType or InstanceCount cannot be specified with InstanceGroups",
    "some channels name groups": (
        "Some channels have assigned instance groups: [a] while others not: [b]"
    ),
    "waiting for no spot instance": "Invalid MaxWaitTimeInSeconds. It is only supported when "
    "EnableManagedSpotTraining is set to true",
}


@pytest.mark.parametrize("name", QUOTED)
def test_where_the_answer_of_aws_is_public_it_is_quoted(name):
    (case,) = (case for case in MUTANTS if case.name == name)
    assert aws_answer(find_violations(case.request)) == QUOTED[name]
