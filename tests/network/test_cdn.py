"""Invalidation through CloudFront's API, as moto serves it over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.errors import MachineError, RecipeError
from gristmill.network.cdn import CloudFront, cloudfront_of
from gristmill.network.keys import new_key
from gristmill.network.publish import publish
from tests.support.releases import PASSPHRASE, bucket, everything_at, small_corpus


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """boto3's client of CloudFront, and a distribution before a bucket."""
    with bucket(tmp_path_factory.mktemp("s3")):
        import boto3

        client = boto3.client("cloudfront")
        origin = {
            "Id": "origin",
            "DomainName": "releases.s3.us-east-1.amazonaws.com",
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
        yield client, made["Distribution"]["Id"]
        client.close()


def test_what_changes_is_invalidated(front: tuple[Any, str], tmp_path: Path) -> None:
    client, distribution = front
    corpus = small_corpus(tmp_path / "corpus", 1, tokens=4000, shards=1)

    def invalidated(identifier: str) -> list[str]:
        found = client.get_invalidation(DistributionId=distribution, Id=identifier)
        return list(found["Invalidation"]["InvalidationBatch"]["Paths"]["Items"])

    done = publish(corpus, "s3://releases/a", cdn=CloudFront(distribution))
    assert [invalidated(one) for one in done["invalidations"]] == [["/latest.json"]]
    new_key(tmp_path / "key", PASSPHRASE)
    done = publish(
        corpus,
        "s3://releases/b",
        keys=[tmp_path / "key"],
        passphrase=PASSPHRASE,
        cdn=CloudFront(distribution, "/corpora/b/"),
    )
    assert [sorted(invalidated(one)) for one in done["invalidations"]] == [
        ["/corpora/b/latest.json", "/corpora/b/trust/root.json", "/corpora/b/trust/timestamp.json"]
    ]
    # More names than one request takes.
    names = [f"objects/{number}" for number in range(1500)]
    made = CloudFront(distribution).invalidate(names)
    assert [len(invalidated(one)) for one in made] == [1000, 500]


def test_a_failed_invalidation_is_an_error_and_the_release_is_out(
    front: tuple[Any, str], tmp_path: Path
) -> None:
    corpus = small_corpus(tmp_path / "corpus", 2, tokens=4000, shards=1)
    with pytest.raises(MachineError, match=r"the invalidation failed \(NoSuchDistribution\)"):
        publish(corpus, "s3://releases/c", cdn=CloudFront("E123"))
    assert everything_at("s3://releases/c").release.number == 1
    done = publish(corpus, "s3://releases/c", cdn=CloudFront(front[1]))
    assert (done["new"], len(done["invalidations"])) == (False, 1)


def test_options() -> None:
    assert cloudfront_of(None, None) is None
    assert cloudfront_of("E12", "/x") == CloudFront("E12", "/x")
    with pytest.raises(RecipeError, match="name the distribution too"):
        cloudfront_of(None, "/x")
    with pytest.raises(RecipeError, match="name the distribution's id"):
        cloudfront_of("https://d111.cloudfront.net", None)
