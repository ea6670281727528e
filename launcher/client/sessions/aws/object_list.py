"""The objects of a list in S3, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from launcher.client.sessions.aws.response_check import foreign_response

#: Pages of a list without a new object, of which S3 itself sends none.
_MOST_EMPTY_PAGES = 20


def listed_objects(s3: Any, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
    """Yield the objects whose keys start with a prefix, each once, in S3's order.

    s3: a client of boto3. Raises Unreachable if page follows page without a new object: tokens
    that never end make empty pages, or the same ones again.
    """
    known: set[str] = set()
    empty = 0
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        fresh = [each for each in page.get("Contents", ()) if each["Key"] not in known]
        yield from fresh
        known.update(each["Key"] for each in fresh)
        empty = 0 if fresh else empty + 1
        if empty > _MOST_EMPTY_PAGES:
            raise foreign_response("ListObjectsV2", f"has {empty} pages without a new object")
