"""The training image in ECR."""

from __future__ import annotations

import re
from typing import Any

from launcher.client.doctor.aws_checks import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions.aws.error_translation import translated
from launcher.errors import CloudError, Refused

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
    r"(?P<repository>[^:@]+)(:(?P<tag>[^@]+))?(@(?P<digest>sha256:[0-9a-f]+))?"
)


def check(connection: Connection, uri: str) -> CheckResult:
    """Check that the image exists; only ECR can be asked."""
    place = _ECR.fullmatch(uri)
    if place is None:
        return _finding(
            Level.WARNING, f"{uri} cannot be seen from here: it is not in ECR, and is not asked for"
        )
    try:
        with translated():
            answer = connection.client("ecr", place["region"]).describe_images(
                registryId=place["account"],
                repositoryName=place["repository"],
                imageIds=[_id(place)],
            )
    except Refused as error:
        return _not_seen(uri, error)
    except CloudError as error:
        return _finding(Level.WARNING, f"{uri} cannot be seen from here: {error.headline}")
    return _judged(connection, uri, place["region"], answer["imageDetails"][0])


def _id(place: re.Match[str]) -> dict[str, str]:
    if place["digest"]:
        return {"imageDigest": place["digest"]}
    return {"imageTag": place["tag"] or "latest"}


def _not_seen(uri: str, error: Refused) -> CheckResult:
    if error.code in ("RepositoryNotFoundException", "ImageNotFoundException"):
        return _finding(
            Level.PROBLEM,
            f"{uri} is not there ({error.headline})",
            "push it, or correct image_uri: account, region, repository and tag",
        )
    return _finding(Level.WARNING, f"{uri} cannot be seen from here ({error.headline})")


def _judged(connection: Connection, uri: str, region: str, details: dict[str, Any]) -> CheckResult:
    if connection.region not in (None, region):
        return _finding(
            Level.WARNING,
            f"{uri} is in {region}, and your region is {connection.region}",
            "use an image of the region in which the job runs",
        )
    size = details.get("imageSizeInBytes", 0) / 2**30
    return _finding(Level.OK, f"{uri}, {size:.1f} GiB compressed")


def _finding(level: Level, what: str, fix: str | None = None) -> CheckResult:
    return CheckResult(part=CheckSection.AWS, subject="image", level=level, what=what, fix=fix)
