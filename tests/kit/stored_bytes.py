"""The bytes that a submission stores, by URI."""

from launcher.client.request import Bundle, Submission


def stored_bytes(submission: Submission) -> dict[str, bytes]:
    with submission.written() as contents:
        return {
            uri: each if isinstance(each, bytes) else each.read_bytes()
            for uri, each in contents.items()
        }


def bundle_bytes(bundle: Bundle) -> bytes:
    (content,) = stored_bytes(
        Submission(request={}, objects={"bundle": bundle}, warnings=())
    ).values()
    return content
