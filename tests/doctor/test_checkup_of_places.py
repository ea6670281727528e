"""The buckets and the network that a job names, as AWS describes them: against moto's server."""

import pytest

from launcher.client.doctor import Connection, Level, network_checks, resource_checks
from launcher.client.spec import JobSpec


def spec(**fields):
    given = {"entry_point": "train.py", "instance_type": "ml.g5.xlarge", "instance_count": 1}
    return JobSpec(**{**given, **fields})


def look(check, job):
    return list(check(Connection(use_instance_role=False), job))


# Buckets ------------------------------------------------------------------------------------------


def make_bucket(aws, name, region="eu-west-1"):
    place = {"LocationConstraint": region}
    aws("s3", region_name=region).create_bucket(Bucket=name, CreateBucketConfiguration=place)


def test_each_bucket_is_looked_at_once(aws):
    make_bucket(aws, "my-bucket")
    inputs = {"a": "s3://my-bucket/a", "b": "s3://absent-bucket/b", "c": "s3://absent-bucket/c"}
    there, absent = look(
        resource_checks.check_buckets, spec(output_path="s3://my-bucket/out", inputs=inputs)
    )
    assert there.level is Level.OK
    assert "my-bucket" in there.what
    assert absent.level is Level.PROBLEM
    assert absent.what == "the bucket absent-bucket (inputs.b) does not exist"


def test_a_bucket_of_another_region(aws):
    make_bucket(aws, "far-bucket", "eu-central-1")
    (finding,) = look(resource_checks.check_buckets, spec(output_path="s3://far-bucket/out"))
    assert finding.level is Level.PROBLEM
    assert "eu-central-1" in finding.what
    assert "eu-west-1" in finding.fix


def test_a_job_that_names_no_bucket_is_not_asked_for_one(aws):
    assert look(resource_checks.check_buckets, spec(inputs={"a": "file:///data"})) == []


# The network --------------------------------------------------------------------------------------


class Vpc:
    """A network of one subnet and one security group, as EC2 makes them."""

    def __init__(self, aws, block="10.0.0.0/16"):
        self.ec2 = aws("ec2")
        self.id = self.ec2.create_vpc(CidrBlock=block)["Vpc"]["VpcId"]
        self.subnet = self.make_subnet(block.replace("/16", "/24"))
        self.group = self.make_group("hosts")

    def make_subnet(self, block):
        made = self.ec2.create_subnet(VpcId=self.id, CidrBlock=block)
        return made["Subnet"]["SubnetId"]

    def make_group(self, name):
        made = self.ec2.create_security_group(VpcId=self.id, GroupName=name, Description=name)
        return made["GroupId"]

    def let_in(self, group=None, **rule):
        self.ec2.authorize_security_group_ingress(
            GroupId=group or self.group, IpPermissions=[{"IpProtocol": "-1", **rule}]
        )

    def let_nothing_out(self):
        every = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        self.ec2.revoke_security_group_egress(GroupId=self.group, IpPermissions=[every])

    def job(self, **fields):
        given = {"subnets": [self.subnet], "security_group_ids": [self.group], "instance_count": 2}
        return spec(**{**given, **fields})


@pytest.fixture
def vpc(aws):
    return Vpc(aws)


def itself(vpc):
    return {"UserIdGroupPairs": [{"GroupId": vpc.group}]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("rule", "level"),
    [
        pytest.param(itself, Level.OK, id="itself"),
        pytest.param(
            lambda vpc: {"IpRanges": [{"CidrIp": "10.0.0.0/8"}]}, Level.OK, id="the whole network"
        ),
        pytest.param(
            lambda vpc: {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535, **itself(vpc)},
            Level.OK,
            id="every port",
        ),
        pytest.param(
            lambda vpc: {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, **itself(vpc)},
            Level.PROBLEM,
            id="one port",
        ),
        pytest.param(
            lambda vpc: {"IpProtocol": "udp", "FromPort": 0, "ToPort": 65535, **itself(vpc)},
            Level.PROBLEM,
            id="another protocol",
        ),
        pytest.param(
            lambda vpc: {"IpRanges": [{"CidrIp": "10.0.1.0/24"}]}, Level.PROBLEM, id="others"
        ),
        pytest.param(
            lambda vpc: {"UserIdGroupPairs": [{"GroupId": vpc.make_group("other")}]},
            Level.PROBLEM,
            id="another group",
        ),
    ],
)
def test_hosts_must_be_let_in_to_each_other(vpc, rule, level):
    vpc.let_in(**rule(vpc))
    (finding,) = look(network_checks.check, vpc.job())
    assert finding.level is level, finding
    if level is Level.PROBLEM:
        assert (
            finding.fix
            == f"add an inbound rule to {vpc.group}: all traffic from {vpc.group} itself"
        )


@pytest.mark.long
def test_hosts_must_be_let_out_to_each_other(vpc):
    vpc.let_in(**itself(vpc))
    vpc.let_nothing_out()
    (finding,) = look(network_checks.check, vpc.job())
    assert finding.level is Level.PROBLEM
    assert "outbound" in finding.fix


@pytest.mark.long
def test_two_groups_may_let_each_other_in(vpc):
    """Every host has both."""
    other = vpc.make_group("other")
    vpc.let_in(group=other, **itself(vpc))
    (finding,) = look(network_checks.check, vpc.job(security_group_ids=[vpc.group, other]))
    assert finding.level is Level.OK


@pytest.mark.long
def test_one_host_needs_no_other(vpc):
    (finding,) = look(network_checks.check, vpc.job(instance_count=1))
    assert finding.level is Level.OK


def test_subnets_and_groups_are_of_one_vpc(aws, vpc):
    other = Vpc(aws, "10.1.0.0/16")
    (finding,) = look(network_checks.check, vpc.job(security_group_ids=[other.group]))
    assert finding.level is Level.PROBLEM
    assert other.id in finding.what


@pytest.mark.long
@pytest.mark.parametrize(
    "wrong",
    [{"subnets": ["subnet-0123456789abcdef0"]}, {"security_group_ids": ["sg-0123456789abcdef0"]}],
    ids=["subnet", "group"],
)
def test_what_is_not_there_is_named(vpc, wrong):
    (finding,) = look(network_checks.check, vpc.job(**wrong))
    assert finding.level is Level.PROBLEM
    (identity,) = next(iter(wrong.values()))
    assert identity in finding.what


def test_a_job_outside_of_a_network_is_asked_for_none(aws):
    assert look(network_checks.check, spec(instance_count=2)) == []
