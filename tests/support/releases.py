"""Published corpora for tests: small corpora of tokens, keys, and an S3 API for all tests of a
module.
"""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gristmill import ReleaseReader
from gristmill.network.releases import layout
from gristmill.network.releases.release import CheckedRelease
from tests.support import servers
from tests.support.skips import missing
from tests.support.token_corpora import token_corpus

PASSPHRASE = "a passphrase of the tests"  # noqa: S105


def small_corpus(root: Path, seed: int = 0, tokens: int = 40_000, shards: int = 4) -> Path:
    """A corpus of one source with a few token shards; another seed, and its tokens differ."""
    numbers = np.random.default_rng(seed).integers(1, 1000, tokens)
    documents = np.array_split(numbers, 40)
    return token_corpus(root, {"web": documents}, tokens_per_shard=-(-tokens // shards))


def everything_at(target: Path | str, **options: Any) -> CheckedRelease:
    """The newest release, all of whose objects are read and compared."""
    reader = ReleaseReader([target], **options)
    newest = reader.newest()
    for part in newest.manifest.parts:
        if newest.release.has(part.path):
            reader.read_object(part.sha256, part.size)
    reader.close()
    return newest


def names(target: Path) -> list[str]:
    """The names of a folder that was published to, without the publishers' locks."""
    found = [path for path in target.rglob("*") if path.is_file()]
    return sorted(
        path.relative_to(target).as_posix() for path in found if not path.name.startswith(".")
    )


def pointer_of(target: Path) -> layout.Pointer:
    """The pointer of a folder."""
    return layout.decode_pointer((target / layout.POINTER).read_bytes(), "latest.json")


@contextmanager
def bucket(folder: Path, name: str = "releases") -> Iterator[Any]:
    """An S3 API over HTTP with a bucket: boto3's client for it. The environment names it."""
    for package in ("moto", "obstore", "boto3"):
        if importlib.util.find_spec(package) is None:
            missing("moto", f"{package} is not installed")
    import boto3

    from gristmill.store.http import remotes

    before = dict(os.environ)
    with servers.s3(folder) as address:
        os.environ |= {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "s3cret-of-the-store",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        stores, remotes._stores = remotes._stores, {}
        try:
            client = boto3.client("s3")
            client.create_bucket(Bucket=name)
            yield client
            client.close()
        finally:
            remotes._stores = stores
            os.environ.clear()
            os.environ.update(before)


class Distribution(NamedTuple):
    """A CloudFront distribution before a bucket."""

    client: Any  # boto3's, of CloudFront
    identifier: str

    def invalidated(self, invalidation: str) -> list[str]:
        """The paths of one invalidation."""
        found = self.client.get_invalidation(DistributionId=self.identifier, Id=invalidation)
        return list(found["Invalidation"]["InvalidationBatch"]["Paths"]["Items"])


@contextmanager
def distribution(name: str = "releases") -> Iterator[Distribution]:
    """A distribution before a bucket; within `bucket`."""
    import boto3

    client = boto3.client("cloudfront")
    origin = {
        "Id": "origin",
        "DomainName": f"{name}.s3.us-east-1.amazonaws.com",
        "S3OriginConfig": {"OriginAccessIdentity": ""},
    }
    made = client.create_distribution(
        DistributionConfig={
            "CallerReference": "tests",
            "Origins": {"Quantity": 1, "Items": [origin]},
            "DefaultCacheBehavior": {
                "TargetOriginId": "origin",
                "ViewerProtocolPolicy": "allow-all",
                "MinTTL": 0,
                "ForwardedValues": {"QueryString": False, "Cookies": {"Forward": "none"}},
            },
            "Comment": "",
            "Enabled": True,
        }
    )
    yield Distribution(client, made["Distribution"]["Id"])
    client.close()
