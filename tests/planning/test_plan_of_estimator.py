"""A notebook's plan and ceiling: Estimator.plan(), fit(max_cost=...) and Job.cost()."""

from __future__ import annotations

import pytest

from launcher import LocalSession, PyTorch, SpecError

PLACES = {
    "image_uri": "111122223333.dkr.ecr.eu-west-1.amazonaws.com/image:1",
    "role": "arn:aws:iam::111122223333:role/Training",
    "output_path": "s3://my-bucket/output",
}


@pytest.fixture
def estimator(tmp_path):
    (tmp_path / "train.py").write_text("print('hello')\n")
    return PyTorch(
        "train.py",
        source_dir=str(tmp_path),
        instance_type="ml.g5.xlarge",
        instance_count=1,
        max_run=3600,
        **PLACES,
    )


@pytest.fixture
def own_price(tmp_path, monkeypatch):
    """Write the user's own prices."""

    def write(line):
        (tmp_path / "own.csv").write_text(f"instance_type,price_per_hour\n{line}\n")
        monkeypatch.setenv("LAUNCHER_PRICES", str(tmp_path / "own.csv"))

    return write


@pytest.fixture
def bucket(aws):
    s3 = aws("s3")
    s3.create_bucket(
        Bucket="my-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
    )
    return lambda: s3.list_objects_v2(Bucket="my-bucket")["KeyCount"]


def test_a_plan_needs_neither_credentials_nor_a_region(offline, estimator):
    plan = estimator.plan({"training": "s3://my-bucket/data"})
    assert "ml.g5.xlarge      1     4  1 x A10G  $1.41  $1.41" in repr(plan)
    assert plan.max_dollars == pytest.approx(1.408)
    assert "other regions differ" in repr(plan)


def test_a_plan_knows_the_region_that_is_configured(credentials, estimator):
    assert "eu-west-1 differs" in repr(estimator.plan())


@pytest.mark.long
def test_only_a_job_below_the_ceiling_is_sent_and_has_a_bill(aws, bucket, estimator, own_price):
    with pytest.raises(SpecError, match="plan types --update --region eu-west-1"):
        estimator.fit(wait=False, max_cost=100)
    own_price("ml.g5.xlarge,1.408")
    with pytest.raises(SpecError, match=r"may cost \$1\.45 in 1h02m .*, more than \$1\.44"):
        estimator.fit(wait=False, max_cost=1.44)
    assert bucket() == 0
    assert aws("sagemaker").list_training_jobs()["TrainingJobSummaries"] == []

    bill = estimator.fit(wait=False, max_cost=1.46).cost()
    assert bucket() > 0
    assert bill is not None
    assert bill.max_dollars == pytest.approx(1.408)
    assert bill.estimate.region == "eu-west-1"


@pytest.mark.long
@pytest.mark.parametrize("region", [None, "eu-west-1"])
def test_on_this_machine_there_is_nothing_to_pay(offline, estimator, region):
    estimator.sagemaker_session = region and LocalSession(region=region)
    job = estimator.fit(local=region is None, max_cost=0, logs=False)
    assert job.status == "Completed"
    assert job.cost() is None
    assert job.summary()["cost"] is None
