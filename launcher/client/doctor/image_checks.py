"""The training image in ECR."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from launcher.client.doctor.aws_connection import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions import foreign_response, translate_errors
from launcher.errors import CloudError, Refused

_finding = partial(CheckSection.AWS.finding, "image")

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
    r"(?P<repository>[^:@]+)(:(?P<tag>[^@]+))?(@(?P<digest>sha256:[0-9a-f]+))?"
)


def check(connection: Connection, uri: str) -> CheckResult:
    """Check that the image exists; other registries than ECR are not checked."""
    match = _ECR.fullmatch(uri)
    if match is None:
        return _finding(Level.WARNING, f"{uri} is not checked: it is not in ECR")
    try:
        with translate_errors():
            response = connection.client("ecr", match["region"]).describe_images(
                registryId=match["account"],
                repositoryName=match["repository"],
                imageIds=[_id(match)],
            )
        if not response["imageDetails"]:
            raise foreign_response("DescribeImages", "describes no image")
    except Refused as error:
        return _not_visible(uri, error)
    except CloudError as error:
        return _finding(Level.WARNING, f"{uri} cannot be checked from here: {error.headline}")
    return _check_region(connection, uri, match["region"], response["imageDetails"][0])


def _id(match: re.Match[str]) -> dict[str, str]:
    if match["digest"]:
        return {"imageDigest": match["digest"]}
    return {"imageTag": match["tag"] or "latest"}


def _not_visible(uri: str, error: Refused) -> CheckResult:
    if error.code in ("RepositoryNotFoundException", "ImageNotFoundException"):
        return _finding(
            Level.PROBLEM,
            f"{uri} does not exist ({error.headline})",
            "push it, or correct image_uri: account, region, repository and tag",
        )
    return _finding(Level.WARNING, f"{uri} cannot be checked from here ({error.headline})")


def _check_region(
    connection: Connection, uri: str, region: str, details: dict[str, Any]
) -> CheckResult:
    if connection.region not in (None, region):
        return _finding(
            Level.WARNING,
            f"{uri} is in {region}, but your region is {connection.region}",
            "use an image in the region of the job",
        )
    size = details.get("imageSizeInBytes", 0) / 2**30
    return _finding(Level.OK, f"{uri}, {size:.1f} GiB compressed")
