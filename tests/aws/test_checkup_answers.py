"""Answers that are not AWS's do not end `launcher check` with a traceback."""

import json

import pytest
from front import Page
from waiting import PATIENCE

from launcher.client.doctor import Level, aws_connection, cloud_checks
from launcher.client.spec import JobSpec

IMAGE = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/train:1"
JOB = JobSpec(
    entry_point="train.py",
    instance_type="ml.g5.xlarge",
    instance_count=2,
    role="Training",
    image_uri=IMAGE,
    subnets=("subnet-1",),
    security_group_ids=("sg-1",),
)
GROUPS = (
    "<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-1</groupId>"
    "<vpcId>vpc-1</vpcId></item></securityGroupInfo></DescribeSecurityGroupsResponse>"
)
SUBNETS = (
    "<DescribeSubnetsResponse><subnetSet><item><subnetId>subnet-1</subnetId>"
    "<vpcId>vpc-1</vpcId><cidrBlock>everywhere</cidrBlock></item></subnetSet>"
    "</DescribeSubnetsResponse>"
)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Answers that a busy machine delays are waited for."""
    monkeypatch.setattr(aws_connection, "_SECONDS", PATIENCE)
    monkeypatch.setattr(cloud_checks, "_FIRST_CONTACT_SECONDS", PATIENCE)


def found(job, subject):
    (finding,) = (
        each for each in cloud_checks.check(job, use_instance_role=False) if each.subject == subject
    )
    return finding


@pytest.mark.parametrize("page", ["<html>Sign in to the hotel</html>", "{}", '{"a":' * 9_000])
def test_a_page_that_is_not_of_aws_is_named(front, page):
    for operation in ("GetRole", "DescribeImages", "DescribeSubnets", "ListServiceQuotas"):
        front.meet(operation, Page(page))
    for finding in cloud_checks.check(JOB, use_instance_role=False):
        if finding.subject in ("role", "image", "network", "quota"):
            assert finding.level is Level.WARNING
            assert "what answers is not AWS" in finding.what


def test_a_caller_without_an_arn_is_no_caller(front):
    front.meet("GetCallerIdentity", Page("<html>Sign in to the hotel</html>"))
    finding = found(None, "credentials")
    assert finding.level is Level.PROBLEM
    assert "what answers is not AWS" in finding.what


@pytest.mark.parametrize(
    ("operation", "page", "subject"),
    [
        ("DescribeImages", '{"imageDetails": []}', "image"),
        ("DescribeSubnets", SUBNETS, "network"),
        ("DescribeSubnets", "<DescribeSubnetsResponse/>", "network"),
        ("ListServiceQuotas", '{"Quotas": [{"QuotaName": 5}]}', "quota"),
    ],
    ids=["no image", "no block of addresses", "no subnet", "a quota of another type"],
)
def test_fields_that_are_not_of_aws_are_named(front, operation, page, subject):
    front.meet("DescribeSecurityGroups", Page(GROUPS))
    front.meet(operation, Page(page))
    finding = found(JOB, subject)
    assert finding.level is Level.WARNING
    assert "what answers is not AWS" in finding.what


@pytest.mark.parametrize("policy", ['["all"]', "{", '{"Statement": ["all"]}'])
def test_a_policy_of_another_form_trusts_nobody(front, policy):
    arn = "arn:aws:iam::123456789012:role/Training"
    role = f"<Arn>{arn}</Arn><AssumeRolePolicyDocument>{policy}</AssumeRolePolicyDocument>"
    front.meet(
        "GetRole",
        Page(
            f"<GetRoleResponse><GetRoleResult><Role>{role}</Role></GetRoleResult></GetRoleResponse>"
        ),
    )
    assert "does not trust SageMaker" in found(JOB, "role").what


def test_quotas_without_an_end_are_given_up(front):
    pages = (Page(json.dumps({"Quotas": [], "NextToken": f"t{number}"})) for number in range(300))
    front.meet("ListServiceQuotas", *pages)
    assert "no quota of this name" in found(JOB, "quota").what
    assert front.count("ListServiceQuotas") == 200
