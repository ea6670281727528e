"""S3 on this machine: moto's server, over HTTP."""

from __future__ import annotations

import io
import tarfile

import boto3
from moto.server import ThreadedMotoServer

#: Where the archive of a script is.
SOURCE = "s3://bucket/job/source/sourcedir.tar.gz"
SECRET = "not-for-the-hosts-7f3a"


class Cloud:
    """A server that speaks S3, with one bucket."""

    def __init__(self) -> None:
        self._server = self._started(0)
        self.port = self._server.get_host_and_port()[1]
        self.environment = {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self.client = boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL_S3"],
            aws_access_key_id="key",
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        self.client.create_bucket(Bucket="bucket")

    def put(self, **objects: str) -> None:
        for key, content in objects.items():
            self.client.put_object(Bucket="bucket", Key=key, Body=content.encode())

    def put_source(self, **files: str) -> None:
        """Store an archive of a script as SDK v2 does; `train_py` names the file train.py."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for name, text in files.items():
                entry = tarfile.TarInfo(name.replace("_", "."))
                entry.size = len(text.encode())
                tar.addfile(entry, io.BytesIO(text.encode()))
        bucket, _, key = SOURCE.removeprefix("s3://").partition("/")
        self.client.put_object(Bucket=bucket, Key=key, Body=packed.getvalue())

    def objects(self, prefix: str) -> dict[str, bytes]:
        """Content by key, without the prefix."""
        found = self.client.list_objects_v2(Bucket="bucket", Prefix=prefix).get("Contents", ())
        return {
            each["Key"].removeprefix(prefix): self.client.get_object(
                Bucket="bucket", Key=each["Key"]
            )["Body"].read()
            for each in found
        }

    def go_away(self) -> None:
        self._server.stop()

    def come_back(self) -> None:
        """At the same address, with what it had."""
        self._server = self._started(self.port)

    @staticmethod
    def _started(port: int) -> ThreadedMotoServer:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        server.start()
        return server
